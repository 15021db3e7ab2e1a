"""What makes the manual: pages of reference out of the code (`python -m docs.generate`), and the site's two languages. Not part of the product."""
