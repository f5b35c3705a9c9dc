"""tickwork: a serverless job scheduler on AWS.

Importing this package imports neither boto3 nor Powertools: a handler pays only for what it uses.
"""
