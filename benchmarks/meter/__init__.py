"""What calls to AWS cost, counted by AWS's published rules: units of DynamoDB, requests of SQS and Lambda, and prices.

`units` are the rules, `hook` counts the calls of boto3 clients, `ports` those of an in-memory store and sender.
No part of the running service imports this.
"""
