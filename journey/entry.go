package journey

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	lru "github.com/hashicorp/golang-lru/v2"

	"waypost"
)

// entry is a part of the definition's entry: an occasion that begins the journey by itself.
// It has one of Event, LeadCreated, LeadChanged and Segment.
type entry struct {
	Event       string   `json:"event,omitempty"`       // the event's name
	LeadCreated bool     `json:"leadCreated,omitempty"` //
	LeadChanged []string `json:"leadChanged,omitempty"` // the fields: one of them has changed
	Segment     string   `json:"segment,omitempty"`     // the id of one that the lead enters
	On          string   `json:"on,omitempty"`          // of a segment: onEnter
	When        string   `json:"when,omitempty"`        // a CEL condition; empty takes all
	EntryKey    string   `json:"entryKey,omitempty"`    // a CEL expression; empty is no key
	Comments    Comments `json:"comments,omitempty"`
}

func (e entry) kind() waypost.EntryKind {
	switch {
	case e.Event != "":
		return waypost.EntryEvent
	case e.LeadCreated:
		return waypost.EntryLeadCreated
	case len(e.LeadChanged) > 0:
		return waypost.EntryLeadChanged
	case e.Segment != "":
		return waypost.EntrySegment
	}
	return ""
}

// name is what people call the occasion.
func (e entry) name() string {
	switch kind := e.kind(); kind {
	case waypost.EntryEvent:
		return "event " + e.Event
	case waypost.EntrySegment:
		return "segment " + e.Segment
	default:
		return string(kind)
	}
}

// takes tells whether the entry names the occasion, whatever its condition says.
func (e entry) takes(o waypost.Occasion) bool {
	switch {
	case e.kind() != o.Kind:
		return false
	case o.Kind == waypost.EntryEvent:
		return e.Event == o.Event.Name
	case o.Kind == waypost.EntryLeadChanged:
		return slices.ContainsFunc(o.Changed, func(field string) bool {
			if strings.HasPrefix(field, "consents.") { // an entry names all of them
				field = "consents"
			}
			return slices.Contains(e.LeadChanged, field)
		})
	case o.Kind == waypost.EntrySegment:
		return e.Segment == o.Segment
	}
	return true
}

// entryEnv declares what the condition and the key of an entry see: there is no enrollment yet.
var entryEnv = sync.OnceValues(func() (*cel.Env, error) { return newEnv(varLead, varJourney) })

// eventEntryEnv is that of an entry by an event.
var eventEntryEnv = sync.OnceValues(func() (*cel.Env, error) { return newEnv(varLead, varJourney, varEvent) })

// compiledEntry is a compiled entry; what it does not have is nil.
type compiledEntry struct{ when, key *condition }

func (d *Definition) compileEntry(e entry) (c compiledEntry) {
	env := entryEnv
	if e.kind() == waypost.EntryEvent {
		env = eventEntryEnv
	}
	compiled := func(source string, result resultTypes) *condition {
		if source == "" {
			return nil
		}
		c := d.compiled(env, source, result)
		return &c
	}
	return compiledEntry{when: compiled(e.When, trueOrFalse), key: compiled(e.EntryKey, textOrNumber)}
}

// EntryRules lists what begins the journey by itself, each once.
func (d *Definition) EntryRules() []waypost.EntryRule {
	var rules []waypost.EntryRule
	for _, e := range d.body.Entry {
		rule := waypost.EntryRule{Kind: e.kind(), Event: e.Event, Segment: e.Segment}
		if !slices.Contains(rules, rule) {
			rules = append(rules, rule)
		}
	}
	return rules
}

// Enters decides whether an occasion begins the journey: the first entry that names it and
// whose condition is true gives the entry key. An entry whose condition or key errs or meets
// a missing value does not take it. reason says why, as Decide does, such as "entry 1: event
// cart: event.total > 50 → true". The facts are those of the lead and the journey; the
// occasion's time is theirs.
func (d *Definition) Enters(o waypost.Occasion, f Facts) waypost.EntryDecision {
	decision := waypost.EntryDecision{Reentry: d.Reentry()}
	f.Now = o.At
	ctx, cancel := context.WithTimeout(context.Background(), maxDecide)
	defer cancel()
	var vars map[string]any
	var reasons []string
	for i, e := range d.body.Entry {
		if !e.takes(o) {
			continue
		}
		if vars == nil {
			vars = conditionVariables(&f)
			if o.Event != nil {
				vars[varEvent] = native(plainObject(o.Event.Properties))
			}
		}
		compiled, why := d.entries[i](), fmt.Sprintf("entry %d: %s", i+1, e.name())
		enters := true
		if compiled.when != nil {
			v := compiled.when.holds(ctx, vars)
			why += ": " + compiled.when.reason(v, &f)
			enters, decision.Failed = v.yes, decision.Failed || v.fault != ""
		}
		if enters && compiled.key != nil {
			key, fault := compiled.key.text(ctx, vars)
			if fault != "" {
				why += ": entryKey → " + errorPrefix + fault
				enters, decision.Failed = false, true
			}
			decision.Key = key
		}
		if enters {
			decision.Enters, decision.Failed, decision.Reason = true, false, waypost.Clip(why, maxWhy)
			return decision
		}
		reasons = append(reasons, why)
	}
	decision.Key, decision.Reason = "", waypost.Clip(strings.Join(reasons, "; "), maxWhy)
	return decision
}

// text evaluates an entry key. fault is a safe word for what went wrong.
func (c condition) text(ctx context.Context, vars map[string]any) (key, fault string) {
	out, fault := c.value(ctx, vars, nil)
	if fault != "" {
		return "", fault
	}
	switch out.(type) {
	case types.String, types.Double:
		out = toText(out)
	default:
		return "", "neither a text nor a number"
	}
	key, _ = out.Value().(string)
	var p waypost.Problems
	if waypost.CheckEntryKey(&p, key); len(p) > 0 {
		return "", p[0].Message
	}
	return key, ""
}

// Limits of an entry.
const (
	MaxEntries     = 20
	MaxEntryFields = 20 // of one leadChanged
)

// entries checks what begins the journey by itself.
func (c *checker) entries() {
	entries := c.d.body.Entry
	c.atMost(len(entries), MaxEntries, "entry", "a journey has at most %d entries, not %d")
	same := func(a, b entry) bool {
		return a.Event == b.Event && a.LeadCreated == b.LeadCreated && slices.Equal(a.LeadChanged, b.LeadChanged) &&
			a.Segment == b.Segment && a.On == b.On && a.When == b.When && a.EntryKey == b.EntryKey
	}
	for i, e := range entries[:min(len(entries), MaxEntries)] {
		path := element("entry", i)
		kinds := 0
		for _, given := range []bool{e.Event != "", e.LeadCreated, len(e.LeadChanged) > 0, e.Segment != ""} {
			if given {
				kinds++
			}
		}
		switch {
		case kinds == 0:
			c.p.Add(waypost.DetailNullValue, path, "must have one of event, leadCreated: true, leadChanged and segment")
		case kinds > 1:
			c.p.Add(waypost.DetailInvalidFormat, path, "must have only one of event, leadCreated, leadChanged and segment")
		case e.Event != "":
			c.eventName(e.Event, path+".event")
		case e.Segment != "":
			c.segment(e.Segment, e.On, path)
		}
		if e.On != "" && e.Segment == "" {
			c.p.Add(waypost.DetailInvalidFormat, path+".on", "only an entry by a segment has it")
		}
		if first := slices.IndexFunc(entries, func(other entry) bool { return same(e, other) }); first < i && kinds > 0 {
			c.p.Add(waypost.DetailDuplicate, path, "entry[%d] is the same", first)
		}
		c.changedFields(e.LeadChanged, path+".leadChanged")
		// An entry of two kinds is not compiled: it has no variables of its own.
		for _, source := range []struct{ member, text string }{{".when", e.When}, {".entryKey", e.EntryKey}} {
			if source.text == "" || kinds != 1 || !c.room(path+source.member, source.text) {
				continue
			}
			compiled := c.d.entries[i]().when
			if source.member == ".entryKey" {
				compiled = c.d.entries[i]().key
			}
			c.condition(source.text, *compiled, path+source.member)
		}
	}
}

func (c *checker) changedFields(names []string, path string) {
	c.atMost(len(names), MaxEntryFields, path, "has at most %d fields, not %d")
	for i, name := range names[:min(len(names), MaxEntryFields)] {
		at := path + element("", i)
		if !isLeadField(name) {
			c.p.Add(waypost.DetailOutOfRange, at, "must be a field of leads, such as email or customFields.plan, not %q", waypost.Clip(name, 80))
		} else if first := slices.Index(names, name); first < i {
			c.p.Add(waypost.DetailDuplicate, at, "leadChanged[%d] is the same field", first)
		}
	}
}

// isLeadField tells whether name is a field that people change, a custom one as
// customFields.NAME.
func isLeadField(name string) bool {
	switch name {
	case "leadsId", "createdAt", "updatedAt", "customFields":
		return false
	}
	_, known := members()[varLead][name]
	return known || isCustomField(name)
}

// published keeps the definitions of published versions that were read: they never change.
// It is safe for concurrent use.
type published struct {
	definitions *lru.Cache[string, *Definition]
}

// maxPublished bounds the definitions that are kept.
const maxPublished = 500

func newPublished() published {
	definitions, _ := lru.New[string, *Definition](maxPublished) // fails for a size below 1 only
	return published{definitions}
}

// read fails for a definition that does not parse.
func (p published) read(v waypost.JourneyVersion) (*Definition, error) {
	key := v.JourneyID + "/" + strconv.Itoa(v.Version)
	if d, known := p.definitions.Get(key); known {
		return d, nil
	}
	d, problems := Parse(v.Definition)
	if err := problems.Err("definition"); err != nil {
		return nil, fmt.Errorf("read the definition of journey %s: %w", key, err)
	}
	p.definitions.Add(key, d)
	return d, nil
}

// Entrances decides who enters journeys by themselves. It is safe for concurrent use.
type Entrances struct{ published }

// NewEntrances makes an Entrances.
func NewEntrances() *Entrances { return &Entrances{newPublished()} }

// Enter decides whether an occasion begins a journey version. It fails for a definition that
// does not parse.
func (e *Entrances) Enter(v waypost.JourneyVersion, o waypost.Occasion) (waypost.EntryDecision, error) {
	d, err := e.read(v)
	if err != nil {
		return waypost.EntryDecision{}, err
	}
	return d.Enters(o, Facts{Lead: o.Lead, JourneyID: v.JourneyID, JourneyName: v.Name, Version: v.Version}), nil
}
