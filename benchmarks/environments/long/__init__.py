"""Long tasks, composed of steps over the services of other environments."""
