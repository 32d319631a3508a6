package journey

import "time"

// The cost limit is to stop what costs too much, however slow the machine is.
func init() { maxDecide = time.Minute }
