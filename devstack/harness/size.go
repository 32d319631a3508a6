package harness

import (
	"os"
	"testing"
)

// Full runs the tests at the size that is promised; without it they are small
// enough for every day.
var Full = os.Getenv("WAYPOST_TEST_SCALE") == "full"

// Scaled picks a size, or a time.
func Scaled[T any](small, promised T) T {
	if Full {
		return promised
	}
	return small
}

// Besides lets small tests share the time; at full size each has the machine.
func Besides(t *testing.T) {
	if !Full {
		t.Parallel()
	}
}
