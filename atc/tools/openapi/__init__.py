"""Tools from OpenAPI 3.0, 3.1 and Swagger 2.0 documents.

The document is data from outside. Nothing of it becomes code; what it says becomes protocols (JSON Schemas and bounded
text) and a plan of each request, in which an argument can only ever fill the place that the document gives it.
"""
