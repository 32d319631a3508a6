package liquid

// Bounds of rendering. The unit of work is about a nanosecond, or one byte that is
// looked at.
const (
	maxOutput      = 64 << 10  // bytes of one template
	maxTotalOutput = 256 << 10 // bytes of all templates that share a budget
	maxWork        = 50_000_000
	maxTrialWork   = 200_000   // of trying a template that is compiled
	maxTurns       = 5_000     // of all loops
	maxString      = 64 << 10  // bytes of a string that a template makes
	maxListLength  = 1_000     // elements of a list that a template makes
	maxListSize    = 256 << 10 // bytes of a list that a template makes
	maxFormat      = 256       // bytes of a date's format
	maxDigits      = 64        // bytes of a text that is calculated with
	turnWork       = 500       // of one turn of a loop, besides its body
	nodeWork       = 100       // of one tag or output, besides its expressions
	valueWork      = 50        // of one value of an expression
	filterWork     = 300       // of one filter, besides its bytes
	numberWork     = 2_000     // of calculating with two numbers
	dateWork       = 20_000    // of reading a text as a date
	elementWork    = 64        // of one element of a list or an object
	textWork       = 8         // of one byte that a filter of texts takes
)

// errRender is why a template fails. It never holds a value.
type errRender string

func (e errRender) Error() string { return string(e) }

const (
	errOutput = errRender("the output is longer than 64 KiB")
	errTotal  = errRender("the params together are longer than 256 KiB")
	errWork   = errRender("the work limit is exceeded")
	errTurns  = errRender("the loop limit is exceeded")
	errString = errRender("a text on the way is longer than 64 KiB")
	errList   = errRender("a list on the way is too long")
	errFormat = errRender("a date's format has at most 256 bytes")
	errNumber = errRender("a number is out of range")
	errOther  = errRender("the template failed")
	// errUnknown ends a trial at a value that is known only when the template is rendered.
	errUnknown = errRender("a value is not known yet")
)

// Budget is what is left for the templates of one message.
type Budget struct {
	work  int
	turns int
	total int // bytes of output
}

// NewBudget returns what one message may take.
func NewBudget() *Budget {
	return &Budget{work: maxWork, turns: maxTurns, total: maxTotalOutput}
}

// trialBudget is what trying a template may take.
func trialBudget() *Budget {
	return &Budget{work: maxTrialWork, turns: maxTurns, total: maxTotalOutput}
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
	case map[string]any:
		for name, e := range v {
			if size > limit {
				break
			}
			size += len(name) + sizeOf(e, limit-size)
		}
	}
	return size
}
