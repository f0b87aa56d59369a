"""What make bench measures. Each module has run(context, section), and says in its first line what it is."""
