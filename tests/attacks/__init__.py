"""Programs that mean harm, and a host that looks afterwards whether any was done."""
