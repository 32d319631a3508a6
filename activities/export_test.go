package activities

import "time"

// SetWriteTime bounds a write of outcomes.
func (a *Activities) SetWriteTime(d time.Duration) { a.recorder.writeTime = d }
