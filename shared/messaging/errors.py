"""What can go wrong, sorted by what to do about it.

MessagingError
├── Transient            the same batch again, later
│   ├── PartitionMissing     no partition of the table takes this id yet
│   ├── TopicAway            this topic takes nothing from us, others may
│   └── TooSlow              the database has ended the transaction: try less at once
├── Permanent            this event will never work: park it, with `reason`
│   ├── Undecodable          not CloudEvents JSON
│   ├── Invalid              the envelope or the data break their contract
│   ├── UnknownType          no contract has this type
│   ├── FutureId             the id claims to have been made in the future
│   ├── BeyondDedupeWindow   too old: the inbox may have forgotten it
│   ├── PayloadMismatch      a known id with other bytes
│   └── AlreadyInvoiced, …   a service's own: subclass Permanent and give it a reason
├── Stop                 this process must end; its next start is in a known state
│   ├── Fenced               another process has this one's place in the group
│   ├── RecordsExpired       the topic dropped records that were never consumed
│   ├── RecordUnreadable     Kafka's client cannot read what the broker has stored
│   ├── DatabaseSetBack      the database knows less than it did: read again what it lost
│   ├── TopicSetBack         the topic ends before our position: read on from where it ends
│   └── WindowTooShort       Kafka would deliver what the inbox has forgotten
├── LeaseLost            another worker has the task now
└── Misuse               the caller's bug: wrong at the first try, not under load
"""


class MessagingError(Exception):
    """The first line of the docstring is the message unless one is given."""

    def __str__(self) -> str:
        return super().__str__() or (self.__doc__ or type(self).__name__).splitlines()[0]


class Transient(MessagingError):
    """Something outside is away; the same work will succeed later."""


class PartitionMissing(Transient):
    """No partition takes this id yet; housekeeping will create it."""


class TopicAway(Transient):
    """The topic does not exist, or is not for us."""


class TooSlow(Transient):
    """The transaction or a statement exceeded its time-out."""


class Permanent(MessagingError):
    """This event cannot be applied, now or later."""

    reason = "handler-failed"


class Undecodable(Permanent):
    """The bytes are not a CloudEvents JSON object."""

    reason = "undecodable"


class Invalid(Permanent):
    """The event breaks its contract."""

    reason = "invalid"


class UnknownType(Permanent):
    """No contract describes this event type."""

    reason = "unknown-type"


class FutureId(Permanent):
    """The event's id lies in the future of the database's clock."""

    reason = "future-id"


class BeyondDedupeWindow(Permanent):
    """The event is older than what the inbox remembers."""

    reason = "beyond-dedupe-window"


class PayloadMismatch(Permanent):
    """This id was seen before with other bytes: an integrity incident."""

    reason = "payload-mismatch"


class Stop(MessagingError):
    """This process must end; its next start is in a known state."""


class Fenced(Stop):
    """Another process has taken this one's place in the consumer group."""


class RecordsExpired(Stop):
    """records-expired: the topic no longer holds the next record to consume."""


class RecordUnreadable(Stop):
    """The broker holds a record that Kafka's client cannot read: damaged, or written by something newer."""


class DatabaseSetBack(Stop):
    """The database has lost commits (an earlier copy was restored): what it lost must be read again."""


class TopicSetBack(Stop):
    """The topic has lost its end, or where it ends cannot be told: the next start finds out where to go on."""


class WindowTooShort(Stop):
    """The topic keeps records longer than the inbox remembers them."""


class LeaseLost(MessagingError):
    """The lease ran out and another worker has the task."""


class Misuse(MessagingError):
    """The library was called in a way that cannot be right."""
