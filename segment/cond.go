package segment

import "time"

// Cond is a question about a lead that a database answers with yes or no: one of And, Or,
// Not, Field, Custom, AtLeast, Entered and Delivered.
type Cond interface{ cond() }

// And asks whether all are met. Without any, the answer is yes.
type And []Cond

// Or asks whether one is met. Without any, the answer is no.
type Or []Cond

// Not asks whether another one is not met.
type Not struct{ Cond }

// Op compares what a field holds with a value.
type Op string

// How fields are compared.
const (
	Equal          Op = "="
	Unequal        Op = "<>"
	Less           Op = "<"
	LessOrEqual    Op = "<="
	Greater        Op = ">"
	GreaterOrEqual Op = ">="

	StartsWith    Op = "starts with" // of texts
	NotStartsWith Op = "starts not with"
	EndsWith      Op = "ends with"
	NotEndsWith   Op = "ends not with"
	Contains      Op = "contains"
	NotContains   Op = "contains not"

	Set   Op = "set" // without a value
	Unset Op = "unset"
)

// opposite has the Op that is met where another is not, of fields that are set.
var opposite = map[Op]Op{
	Equal: Unequal, Unequal: Equal, Less: GreaterOrEqual, GreaterOrEqual: Less, Greater: LessOrEqual, LessOrEqual: Greater,
	StartsWith: NotStartsWith, EndsWith: NotEndsWith, Contains: NotContains, Set: Unset, Unset: Set,
}

// Field asks about a field of leads other than the custom ones. One that is not set meets
// nothing but Unset.
type Field struct {
	Name  string // as leads have it, or EmailFolded
	Op    Op
	Value any // string, float64 (of whole numbers) or Moment; nil for Set and Unset
}

// EmailFolded is the e-mail address as waypost.FoldText has it.
const EmailFolded = "emailFolded"

// Custom asks about a custom field. One that is not set, or has a value of another type,
// meets nothing but Unset; Unequal is met by values of other types, too.
type Custom struct {
	Name  string
	Op    Op
	Value any // string, float64 or bool; nil for Set and Unset
}

// Moment is a time that is known when a segment is read.
type Moment struct {
	At      time.Time
	FromNow bool // At does not count; it is the time of the reading
	Offset  time.Duration
}

// Time is the moment, where now is the time of the reading.
func (m Moment) Time(now time.Time) time.Time {
	if m.FromNow {
		m.At = now
	}
	return m.At.Add(m.Offset)
}

// AtLeast asks whether a lead has so many events of a name in a window before now, or, with
// window 0, ever.
type AtLeast struct {
	Event  string
	Window time.Duration
	N      int // 1 or more
}

// Entered asks whether a lead was enrolled in a journey.
type Entered struct{ JourneyID string }

// Delivered asks whether a lead got a message of a node.
type Delivered struct{ JourneyID, NodeID string }

func (And) cond()       {}
func (Or) cond()        {}
func (Not) cond()       {}
func (Field) cond()     {}
func (Custom) cond()    {}
func (AtLeast) cond()   {}
func (Entered) cond()   {}
func (Delivered) cond() {}

var (
	always Cond = And{}
	never  Cond = Or{}
)

// all joins questions, without those that are always met.
func all(list ...Cond) Cond { return joined[And, Or](list) }

// either joins questions, without those that are never met.
func either(list ...Cond) Cond { return joined[Or, And](list) }

// joined makes one T of questions. Of the questions in a T it takes each; an Other without
// any decides alone.
func joined[T, Other interface {
	And | Or
	Cond
}](list []Cond) Cond {
	var out T
	for _, c := range list {
		if same, ok := c.(T); ok {
			out = append(out, same...)
			continue
		}
		if other, ok := c.(Other); ok && len(other) == 0 {
			return other
		}
		out = append(out, c)
	}
	if len(out) == 1 {
		return out[0]
	}
	return out
}

// sizeOf counts the questions about fields and records.
func sizeOf(c Cond) int {
	n := 0
	switch c := c.(type) {
	case And:
		for _, each := range c {
			n += sizeOf(each)
		}
	case Or:
		for _, each := range c {
			n += sizeOf(each)
		}
	case Not:
		n = sizeOf(c.Cond)
	default:
		n = 1
	}
	return n
}
