package journey

import (
	"io"
	"unicode/utf8"
)

// Bounds of rendering. The unit of work is about a nanosecond, or one byte that
// is looked at. The library bounds nothing by itself, so every loop, filter and
// write of ours is counted here.
const (
	maxOutput      = 64 << 10  // bytes of one param
	maxTotalOutput = 256 << 10 // bytes of all params of a message
	maxWork        = 50_000_000
	maxTurns       = 5_000     // of all loops of a message
	maxString      = 64 << 10  // bytes of one string on the way
	maxListLength  = 1_000     // elements of one list on the way
	maxListSize    = 256 << 10 // bytes of one list on the way
	turnWork       = 1_500     // of one turn of a loop, besides its body
	filterWork     = 300       // of one filter, besides its bytes
	sourceWork     = 32        // of one byte of a tag or an output
	elementWork    = 16        // of one element of a list or an object
)

// errRender is a fault whose text may be told: it never holds a value.
type errRender string

func (e errRender) Error() string { return string(e) }

const (
	errOutput = errRender("the output is longer than 64 KiB")
	errTotal  = errRender("the params together are longer than 256 KiB")
	errWork   = errRender("the work limit is exceeded")
	errTurns  = errRender("the loop limit is exceeded")
	errString = errRender("a text on the way is longer than 64 KiB")
	errList   = errRender("a list on the way is too long")
	errSource = errRender("the template does not compile")
	errOther  = errRender("the template failed")
)

// budget is what is left for rendering one message.
type budget struct {
	work  int
	turns int
	total int // bytes of output
	// largest is the size of the largest value so far: no operator of an expression
	// looks at more bytes than that.
	largest int
	// fault is the first bound that was hit. The library wraps errors in texts that
	// hold values, so this is what is told.
	fault error
}

func newBudget(facts int) budget {
	return budget{work: maxWork, turns: maxTurns, total: maxTotalOutput, largest: max(facts, 1<<10)}
}

func (b *budget) fail(err error) error {
	if b.fault == nil {
		b.fault = err
	}
	return err
}

func (b *budget) spend(work int) error {
	if b.work -= work; b.work < 0 {
		return b.fail(errWork)
	}
	return nil
}

// run spends the work of evaluating a piece of template once.
func (b *budget) run(c cost) error { return b.spend(c.source*sourceWork + c.operators*b.largest) }

// made accounts for a value that came to be on the way.
func (b *budget) made(v any) error {
	switch v := v.(type) {
	case string:
		if len(v) > maxString {
			return b.fail(errString)
		}
	case []any:
		if len(v) > maxListLength {
			return b.fail(errList)
		}
	}
	size := sizeOf(v, maxListSize)
	if size > maxListSize {
		return b.fail(errList)
	}
	b.largest = max(b.largest, size)
	return b.spend(size)
}

// sizeOf is the number of bytes of a value as text, roughly; it stops counting
// beyond limit.
func sizeOf(v any, limit int) int {
	size := elementWork
	switch v := v.(type) {
	case string:
		size += len(v)
	case []any:
		for _, e := range v {
			if size > limit {
				break
			}
			size += sizeOf(e, limit-size)
		}
	case object:
		for name, e := range v {
			if size > limit {
				break
			}
			size += len(name) + sizeOf(e, limit-size)
		}
	}
	return size
}

// boundedWriter collects at most left bytes.
type boundedWriter struct {
	b    *budget
	left int
	over error
	out  []byte
}

func (w *boundedWriter) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, w.b.fail(w.over)
	}
	w.out = append(w.out, p...)
	return len(p), w.b.spend(len(p))
}

var _ io.Writer = (*boundedWriter)(nil)

// text is what was written, as valid UTF-8: it becomes part of a JSON document.
func (w *boundedWriter) text() string {
	if utf8.Valid(w.out) {
		return string(w.out)
	}
	return toValid(string(w.out))
}

// told is the error to tell where rendering failed with one that may not be.
func (b *budget) told() error {
	if b.fault != nil {
		return b.fault
	}
	return errOther
}
