package workflows

var Priority = priority
