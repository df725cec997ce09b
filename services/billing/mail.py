"""The e-mail of an invoice, and the one conversation with the mail server in which it is handed over.

The same invoice gives the same bytes: a mail that has to be sent again is the same mail, down to its Message-ID.

MailError
├── NotNow          the server did not take it: away, busy, or unwilling at the moment; the mail was not delivered
├── Refused         the server says it never will take it
└── OutcomeUnknown  the mail was handed over and no answer came that says yes or no: delivered or not, nobody knows
"""

import smtplib
import threading
import time
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime

import jinja2
from email_validator import EmailNotValidError, validate_email

from services.billing.invoice import Invoice
from services.billing.pdf import TEMPLATES

SENDER = Address("The Once Shop", "billing", "shop.invalid")
POLICY = SMTP.clone(cte_type="7bit")  # any server takes it, 8BITMIME or not


class MailError(Exception):
    """The mail server and we did not come to an end."""


class NotNow(MailError):
    """The mail was not taken; it may be later."""


class Refused(MailError):
    """The mail will never be taken."""


class OutcomeUnknown(MailError):
    """The mail was handed over, and no answer came that says yes or no."""


class Letters:
    """Makes the e-mails. The templates are read once per process."""

    def __init__(self) -> None:
        folder = jinja2.FileSystemLoader(TEMPLATES)
        escaping = jinja2.select_autoescape(["html"])  # and not the plain text, where &amp; would be printed
        environment = jinja2.Environment(loader=folder, autoescape=escaping, undefined=jinja2.StrictUndefined)  # noqa: S701
        self._text = environment.get_template("mail.txt")
        self._html = environment.get_template("mail.html")

    def write(self, invoice: Invoice, pdf: bytes) -> EmailMessage:
        message = EmailMessage(POLICY)
        message["From"] = SENDER
        message["To"] = recipient(invoice)
        message["Subject"] = f"Your invoice {invoice.printed_number}"
        message["Date"] = format_datetime(invoice.issued_at)
        message["Message-ID"] = f"<{invoice.message_id}>"
        message.set_content(self._text.render(invoice=invoice))
        message.add_alternative(self._html.render(invoice=invoice), subtype="html")
        message.add_attachment(
            pdf, maintype="application", subtype="pdf", filename=f"invoice-{invoice.printed_number}.pdf"
        )
        for depth, part in enumerate(part for part in message.walk() if part.is_multipart()):
            part.set_boundary(f"=={depth}={invoice.id.hex}")  # otherwise random
        return message


def recipient(invoice: Invoice) -> Address:
    """A name is only shown, so it loses what could end a line; an address is used, so it is right or refused."""
    name = "".join(c for c in invoice.customer.name if unicodedata.category(c) not in ("Cc", "Cf", "Zl", "Zp"))
    try:
        found = validate_email(
            invoice.customer.email, check_deliverability=False, allow_smtputf8=False, globally_deliverable=False
        )
    except EmailNotValidError as error:
        raise Refused(f"not an e-mail address: {error}") from error
    return Address(name.strip(), addr_spec=found.ascii_email)


def deliver(address: str, message: EmailMessage, timeout_s: float) -> None:
    """Returns when the server has taken the mail; otherwise raises one of the three. Ends in time, come what may."""
    host, _, port = address.rpartition(":")
    smtp = smtplib.SMTP(timeout=timeout_s, local_hostname="shop.invalid")
    deadline = time.monotonic() + timeout_s
    try:
        with _time_limit(smtp, timeout_s):
            _check("connect", *smtp.connect(host, int(port)), for_good=False)
            if time.monotonic() > deadline:
                raise TimeoutError
            smtp.ehlo_or_helo_if_needed()
            _hand_over(smtp, message)
            with suppress(smtplib.SMTPException, OSError):
                smtp.quit()
    except (smtplib.SMTPException, OSError) as error:
        late = time.monotonic() > deadline
        raise NotNow(f"it took longer than {timeout_s:g} s" if late else str(error)) from error
    finally:
        smtp.close()


def _hand_over(smtp: smtplib.SMTP, message: EmailMessage) -> None:
    content = message.as_bytes()
    _check("MAIL", *smtp.mail(SENDER.addr_spec), for_good=False)  # what it has against us may be mended
    _check("RCPT", *smtp.rcpt(message["To"].addresses[0].addr_spec), for_good=True)
    try:
        code, said = smtp.data(content)
    except smtplib.SMTPDataError as error:  # to the command: nothing was handed over yet
        said = error.smtp_error if isinstance(error.smtp_error, bytes) else b""
        if (code := error.smtp_code) // 100 not in (4, 5):
            raise NotNow(f"an answer to DATA that is neither go on nor no: {code}") from error
    except Exception as error:
        raise OutcomeUnknown(f"no answer to the mail: {error}") from error
    else:
        if code // 100 not in (2, 4, 5):
            raise OutcomeUnknown(f"the answer to the mail is none: {code} {said.decode(errors='replace')}")
    _check("DATA", code, said, for_good=True)


def _check(command: str, code: int, said: bytes, *, for_good: bool) -> None:
    if 200 <= code < 300:
        return
    sentence = f"{command}: {code} {said.decode(errors='replace')}"
    raise Refused(sentence) if for_good and 500 <= code < 600 else NotNow(sentence)


@contextmanager
def _time_limit(smtp: smtplib.SMTP, seconds: float) -> Iterator[None]:
    """smtplib's time-out starts anew with every byte received and every address tried; this one does not."""
    done = threading.Event()

    def hang_up_in_time() -> None:
        wait_s = seconds
        while not done.wait(wait_s):
            with suppress(OSError, AttributeError):  # while it connects there is no socket yet
                smtp.sock.shutdown(2)  # type: ignore[union-attr]
            wait_s = 0.1

    threading.Thread(target=hang_up_in_time, daemon=True).start()
    try:
        yield
    finally:
        done.set()
