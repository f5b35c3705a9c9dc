"""The CDK app: everything tickwork is made of on AWS. Stacks compose, constructs hold one capability each.

Imports names, tables, queues and settings from the package, never the reverse.
"""
