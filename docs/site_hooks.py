"""What the site does to the pages beside rendering them."""
