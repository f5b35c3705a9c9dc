"""Pages by SNS: a `ports.Pager`.

A team has one topic of its own at most, `<prefix>-pager-<team>`: its ARN says whose it is, so no team can name another
one's, and the role that publishes reaches no other topics. An e-mail address is subscribed to that topic, which is made
for it where there is none; it hears nothing before it has confirmed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from tickwork.core.access.pagers import FAILED, PROVEN, UNCONFIRMED
from tickwork.core.access.pools import part_of
from tickwork.core.texts import cleaned
from tickwork.ports import Paged

PAGES_MAX = 10
"""Of subscriptions of one topic, a hundred to each."""
_PENDING = "PendingConfirmation"


class SnsPager:
    def __init__(self, client: Callable[[], Any], prefix: str, kms_key_arn: str = "") -> None:
        """`client` makes one when the first page is sent: few processes ever do. `kms_key_arn`: the environment's own
        key, which the topics made here are encrypted with."""
        self._client, self._prefix, self._key_arn = client, prefix, kms_key_arn

    def topic_of(self, team: str) -> str:
        return f"{self._prefix}-pager-{part_of(team)}"

    def page(self, team: str, way: str, address: str, subject: str, text: str, *, asks: bool = True) -> Paged:
        try:
            if way == "email":
                return self._mail(team, address, subject, text, asks=asks)
            return self._publish(address, subject, text)
        except (ClientError, BotoCoreError) as error:
            return Paged(FAILED, cleaned(str(error), 300))

    def _publish(self, topic: str, subject: str, text: str) -> Paged:
        self._client().publish(TopicArn=topic, Subject=subject, Message=text)
        return Paged(PROVEN, "SNS has taken the message")

    def _mail(self, team: str, address: str, subject: str, text: str, *, asks: bool) -> Paged:
        topic = str(self._client().create_topic(Name=self.topic_of(team))["TopicArn"])
        if self._key_arn:  # by a call of its own: the other one refuses a topic that is there without a key
            key = {"AttributeName": "KmsMasterKeyId", "AttributeValue": self._key_arn}
            self._client().set_topic_attributes(TopicArn=topic, **key)
        if self._is_confirmed(topic, address):
            return self._publish(topic, subject, text)
        if not asks:
            return Paged(UNCONFIRMED, f"{address} was asked to confirm a while ago: follow the link in that mail")
        self._client().subscribe(TopicArn=topic, Protocol="email", Endpoint=address)
        return Paged(UNCONFIRMED, f"{address} has been asked to confirm: follow the link in the mail, then test again")

    def _is_confirmed(self, topic: str, address: str) -> bool:
        token: dict[str, str] = {}
        for _ in range(PAGES_MAX):
            page = self._client().list_subscriptions_by_topic(TopicArn=topic, **token)
            for one in page.get("Subscriptions", []):
                if (one["Protocol"], one["Endpoint"]) == ("email", address):
                    return bool(one["SubscriptionArn"] != _PENDING)
            if not page.get("NextToken"):
                return False
            token = {"NextToken": page["NextToken"]}
        return False
