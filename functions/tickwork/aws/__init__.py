"""The rim: boto3 clients, SQS, the real clock, Powertools. Each adapter does one kind of I/O."""
