"""Attempts to have spectui run, write or tell what it should not, or end as a defect."""
