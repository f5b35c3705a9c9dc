"""What the audit decides: when a bucket is looked at again, what has waited too long, where a pass goes on."""
