"""Managed policies for those who use the service: attach them to a role instead of writing ARNs by hand.

`<prefix>-client` may call the API. `<prefix>-worker-<pool>` may take messages from
one pool's ready queue, as a process, as a Lambda fed by the queue or by leases over HTTP, and make the workers' calls.
The pool `push` has none: its worker is the pusher, and nobody else takes its messages.
"""

from __future__ import annotations

from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra import key as own_key
from infra.http_api import Api
from infra.queues import Queues

WORKER_CALLS = ("/runs:start", "/runs:heartbeat", "/runs:complete")
WORKER_ACTIONS = (
    "sqs:GetQueueUrl",
    "sqs:ReceiveMessage",
    "sqs:ChangeMessageVisibility",
    "sqs:DeleteMessage",
    "sqs:GetQueueAttributes",
)


class Access(Construct):
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        prefix: str,
        api: Api,
        queues: Queues,
        key: kms.IKey | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        self._with_key = [] if key is None else [own_key.taking(key)]
        worker_routes = [api.invoke_arn("POST", path) for path in WORKER_CALLS]
        self.client = iam.ManagedPolicy(
            self,
            "Client",
            managed_policy_name=f"{prefix}-client",
            description="May call the tickwork API",
            statements=[
                iam.PolicyStatement(actions=["execute-api:Invoke"], resources=[api.invoke_arn("*", "/*")]),
            ],
        )
        self.workers: dict[str, iam.ManagedPolicy] = {}
        """By pool."""
        for pool, queue in queues.of_workers.items():
            lease = api.invoke_arn("POST", f"/pools/{pool}:lease")
            self.workers[pool] = self._worker(f"{prefix}-worker-{pool}", pool, queue, [*worker_routes, lease])

    def _worker(self, name: str, pool: str, queue: sqs.Queue, routes: list[str]) -> iam.ManagedPolicy:
        return iam.ManagedPolicy(
            self,
            f"Worker-{pool}",
            managed_policy_name=name,
            description=f"May work for the pool {pool}: take its messages, start and complete runs",
            statements=[
                iam.PolicyStatement(actions=list(WORKER_ACTIONS), resources=[queue.queue_arn]),
                iam.PolicyStatement(actions=["execute-api:Invoke"], resources=routes),
                *self._with_key,
            ],
        )
