package workflows

var (
	CohortPriority     = cohortPriority
	RedeliveryPriority = (*RedeliveryInput).priority
	Thousands          = thousands
	ScheduleSpec       = scheduleSpec
)
