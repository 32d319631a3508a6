package segment

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"waypost"
	"waypost/journey"
)

// Bounds of what one segment comes to with those that it names.
const (
	MaxDepth     = 5   // segments that name each other in a row
	MaxQuestions = 500 // about fields and records, each as often as it is asked
)

// Segment is a compiled segment. It is immutable and safe for concurrent use.
type Segment struct {
	parts []part
	depth int
	where Cond
	exact bool
	asks  waypost.RecordNeeds // with the segments that it names
	timed bool                // it or one of these
}

// part is one of the conditions that && joins.
type part struct {
	journey.SegmentPart
	exact bool
}

// Compile compiles the segment of an id; whens has its condition and those of the segments
// that it names, by their ids. What is wrong with it is a BadRequest of "when" that names
// the part.
func Compile(id string, whens map[string]string) (*Segment, error) {
	c := compiler{whens: whens, done: map[string]*Segment{}}
	s, err := c.compile(id)
	if err != nil {
		return nil, Faulty("%s", err)
	}
	return s, nil
}

// Faulty is the BadRequest of a condition.
func Faulty(format string, args ...any) error {
	var p waypost.Problems
	p.Add(waypost.DetailInvalidFormat, "when", format, args...)
	return p.Err("when")
}

// compiler compiles a segment and those that it names.
type compiler struct {
	whens map[string]string
	done  map[string]*Segment
	path  []string // from the first one to the one that is compiled
}

func (c *compiler) compile(id string) (*Segment, error) {
	if s := c.done[id]; s != nil {
		return s, nil
	}
	if i := slices.Index(c.path, id); i >= 0 {
		return nil, fmt.Errorf("inSegment leads in a circle: %s", strings.Join(append(slices.Clone(c.path[i:]), id), ", "))
	}
	when, known := c.whens[id]
	if !known {
		return nil, fmt.Errorf("inSegment: there is no segment %s", waypost.Clip(id, 64))
	}
	c.path = append(c.path, id)
	defer func() { c.path = c.path[:len(c.path)-1] }()
	s, err := c.compileOne(when)
	if err != nil {
		return nil, err
	}
	c.done[id] = s
	return s, nil
}

// compileOne compiles a condition with the segments that it names. Faults name the segment; more than
// MaxDepth in a row and more than MaxQuestions things to ask for are faults.
func (c *compiler) compileOne(when string) (*Segment, error) {
	parts, err := journey.CompileSegment(when)
	if err != nil {
		return nil, c.of(err)
	}
	s := &Segment{depth: 1, exact: true}
	var wheres []Cond
	for _, p := range parts {
		s.asks.Add(p.Needs)
		s.timed = s.timed || p.Timed
		for _, other := range p.Needs.Segments {
			of, err := c.compile(other)
			if err != nil {
				return nil, err
			}
			s.asks.Add(of.asks)
			s.timed = s.timed || of.timed
			if s.depth = max(s.depth, of.depth+1); s.depth > MaxDepth {
				return nil, c.of(fmt.Errorf("%s: more than %d segments name each other in a row", waypost.Clip(p.Text, 100), MaxDepth))
			}
		}
		where, exact := questions{c.done}.of(p.Expr(), true)
		s.parts = append(s.parts, part{p, exact})
		s.exact = s.exact && exact
		wheres = append(wheres, where)
		if n := sizeOf(And(wheres)); n > MaxQuestions {
			return nil, c.of(fmt.Errorf("%s: with the segments that it names it asks for %d things, and at most %d are allowed", waypost.Clip(p.Text, 100), n, MaxQuestions))
		}
	}
	s.where = all(wheres...)
	return s, nil
}

// of names the segment that an error is about, unless it is the one that is asked for.
func (c *compiler) of(err error) error {
	if len(c.path) < 2 {
		return err
	}
	return fmt.Errorf("segment %s: %w", c.path[len(c.path)-1], err)
}

// Where is a question that all leads in the segment meet. If Exact, no others do.
func (s *Segment) Where() Cond { return s.where }

// Exact tells whether whoever meets Where is in the segment.
func (s *Segment) Exact() bool { return s.exact }

// Needs is what the parts ask of a lead's record that Where does not answer; with whole,
// what all parts ask.
func (s *Segment) Needs(whole bool) (needs waypost.RecordNeeds) {
	for _, p := range s.parts {
		if whole || !p.exact {
			needs.Add(p.Needs)
		}
	}
	return needs
}

// Asks is what it asks of a lead's record, with the segments that it names.
func (s *Segment) Asks() waypost.RecordNeeds { return s.asks }

// Timed tells whether time alone can change who is in it.
func (s *Segment) Timed() bool { return s.timed }

// Clock is how time alone can change who is in it, but for the segments that it names.
func (s *Segment) Clock() (c waypost.Clock) {
	for _, p := range s.parts {
		c.Add(p.Clock)
	}
	return c
}

// Fields are the fields of a lead that the parts read which Where does not answer.
func (s *Segment) Fields() (fields []string) {
	for _, p := range s.parts {
		if !p.exact {
			fields = append(fields, p.Fields...)
		}
	}
	slices.Sort(fields)
	return slices.Compact(fields)
}

// Has tells whether a lead that meets Where is in the segment; with whole, whether any lead
// is. The lead has what Fields says, or all, and the record what Needs says.
func (s *Segment) Has(ctx context.Context, lead *waypost.Lead, record *waypost.LeadRecord, now time.Time, whole bool) bool {
	facts := journey.NewSegmentFacts(lead, record, now)
	for _, p := range s.parts {
		if (whole || !p.exact) && !p.Holds(ctx, facts) {
			return false
		}
	}
	return true
}
