"""What the page says, a section a file: values in, blocks out. Looks are for the templates."""
