package worker

// PumpObserver is told what a pump hands to Temporal, for metrics. Its methods
// are called from several goroutines at once and must not block.
type PumpObserver interface {
	// Started is called when Temporal has taken the workflow of n enrollments,
	// launches, imports or batches of redeliveries, or renewed n Schedules; kind is a
	// Kind… value.
	Started(kind string, n int)
	// Signaled is called when Temporal has taken one signal that stands for n
	// notices.
	Signaled(n int)
}

// What a pump starts.
const (
	KindEnrollment = "enrollment"
	KindLaunch     = "launch"
	KindImport     = "import"
	KindRedelivery = "redelivery"
	KindRenewal    = "renewal" // of the Schedule of a recurring launch
)
