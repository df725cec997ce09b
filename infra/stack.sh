#!/bin/sh
# Runs docker-compose.yml with Docker where an engine answers, natively where none does:
#   infra/stack.sh up | down | clean | ps | logs [-f] [PROCESS] | kill | stop | start | restart PROCESS | psql [DATABASE]
#   infra/stack.sh exec PROCESS COMMAND …    a command where that process runs, with its settings
# MODE=docker or MODE=native forces one. Called by the Makefile.
set -eu
cd "$(dirname "$0")/.."
command=$1; shift

choose_mode() {
  command -v timeout >/dev/null 2>&1 && patience="timeout 10" || patience= # macOS has none
  if [ -n "${MODE:-}" ]; then mode=$MODE; reason="MODE=$MODE"
  elif [ -f .run/mode ]; then mode=$(cat .run/mode); reason="as the last make up"
  elif ! command -v docker >/dev/null 2>&1; then mode=native; reason="docker is not installed"
  elif ! docker compose version >/dev/null 2>&1; then mode=native; reason="docker has no compose plugin"
  elif ! $patience docker info >/dev/null 2>&1; then mode=native; reason="no Docker engine answers"
  else mode=docker; reason="a Docker engine answers"
  fi
  case $mode in docker|native) ;; *) echo "MODE is docker or native, not '$mode'" >&2; exit 2 ;; esac
}

# Every password is made here, once; .env stays on this machine.
make_secrets() {
  [ -f .env ] || { (umask 077; echo "# Made by make up. Never commit this file." >.env); echo "secrets: written to .env"; }
  for name in POSTGRES_PASSWORD ORDERS_DB_PASSWORD BILLING_DB_PASSWORD ANALYTICS_DB_PASSWORD AUDITOR_DB_PASSWORD \
              FAILPOINTS_TOKEN OPERATOR_TOKEN CONTROL_ROOM_TOKEN; do
    grep -q "^$name=" .env || echo "$name=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')" >>.env
  done
  chmod 600 .env
}

[ "$command" = up ] && [ -z "${MODE:-}" ] && rm -f .run/mode
choose_mode
if [ "$command" = up ]; then
  echo "running with $mode ($reason; MODE=docker or MODE=native forces one)"
  make_secrets
fi

# make naive asks for more than the ordinary stack, until make naive-down or make down.
if [ -f .run/profiles ]; then COMPOSE_PROFILES=$(cat .run/profiles); export COMPOSE_PROFILES; fi

if [ "$mode" = native ]; then
  [ "$command" = up ] && "${MAKE:-make}" --no-print-directory --silent .venv/run-installed
  [ -x .venv/bin/python ] || { echo "nothing is installed yet: make up"; exit 0; }
  [ "$command" = up ] && mkdir -p .run && echo native >.run/mode
  exec .venv/bin/python -W ignore -m infra.native "$command" "$@"
fi

case $command in
  up)
    mkdir -p .run; echo docker >.run/mode
    docker compose up --detach --build --wait
    docker compose ps
    token=$(sed -n 's/^CONTROL_ROOM_TOKEN=//p' .env)
    echo "Open the control room: http://127.0.0.1:${CONTROL_ROOM_PORT:-8000}/?token=$token    the mailbox: http://127.0.0.1:${MAIL_PORT:-8025}"
    echo "Next: make ps · make logs S=orders-relay · make kill S=billing-consumer · make start S=billing-consumer · make down" ;;
  down) docker compose down; rm -f .run/profiles ;;
  clean) docker compose down --volumes --remove-orphans; rm -f .run/mode .run/profiles .run/*ledger.jsonl ;;
  ps) docker compose ps ;;
  psql) [ -t 0 ] && tty="" || tty=-T # a script may come through a pipe
    docker compose exec $tty postgres psql -U postgres "${1:-orders}" ;;
  exec) exec docker compose exec -T "$@" ;;
  start) docker compose up --detach --no-deps --wait "$@" ;; # compose start would run the steps again
  *) docker compose "$command" "$@" ;;
esac
