"""Records with an enforced norm bound: datasets, how they are made, and their neighbours."""
