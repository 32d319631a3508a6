package stack

import (
	"fmt"
	"io"
	"time"
)

// progress tells what is being done and how long it took.
type progress struct{ w io.Writer }

func (p progress) step(name string, do func() error) error {
	fmt.Fprintf(p.w, "  %s … ", name)
	began := time.Now()
	if err := do(); err != nil {
		fmt.Fprintln(p.w, "failed")
		return err
	}
	fmt.Fprintf(p.w, "%.1f s\n", time.Since(began).Seconds())
	return nil
}
