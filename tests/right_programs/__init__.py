"""Right programs over ten tool sets, written from a task and the tools' stubs alone: none may be refused or changed."""
