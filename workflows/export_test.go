package workflows

var (
	Priority           = priority
	RedeliveryPriority = redeliveryPriority
	Thousands          = thousands
	ScheduleSpec       = scheduleSpec
)
