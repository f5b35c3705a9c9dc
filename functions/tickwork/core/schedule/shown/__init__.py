"""What people are shown of a schedule: words, previews, notes, surprises."""
