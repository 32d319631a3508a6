package workflows

var (
	Priority  = priority
	Thousands = thousands
)
