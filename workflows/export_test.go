package workflows

var (
	CohortPriority     = cohortPriority
	RedeliveryPriority = redeliveryPriority
	Thousands          = thousands
	ScheduleSpec       = scheduleSpec
)
