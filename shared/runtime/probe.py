"""A health probe that costs 15 ms: `python -S -m shared.runtime.probe 127.0.0.1:9101/readyz`.

Exit status 0 when the answer is 200 (without a path: when the port is open); otherwise 1, with the reasons on standard
output. It imports only `socket`, because Docker starts it every few seconds in every container.
"""

import socket
import sys


def probe(target: str, timeout_s: float = 3.0) -> tuple[bool, str]:
    address, _, path = target.partition("/")
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout_s) as connection:
            if not path:
                return True, "open"
            connection.sendall(f"GET /{path} HTTP/1.0\r\nHost: {address}\r\n\r\n".encode())
            answer = b""
            while part := connection.recv(65536):
                answer += part
    except OSError as error:
        return False, f"{address}: {error}"
    head, _, body = answer.partition(b"\r\n\r\n")
    return b" 200 " in head.split(b"\r\n", 1)[0], body.decode(errors="replace").strip()


if __name__ == "__main__":
    healthy, answer = probe(sys.argv[1])
    print(answer)
    sys.exit(0 if healthy else 1)
