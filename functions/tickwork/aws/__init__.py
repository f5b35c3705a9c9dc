"""Adapters to AWS: boto3 clients, SQS, Secrets Manager, Powertools, and the real clock. Each does one kind of I/O."""
