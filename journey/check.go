package journey

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"waypost"
)

// Check reports everything that keeps the definition from being published
// (docs/contract.md, "Publishing"), at once, each problem with the path of what is wrong.
// webhookExists tells whether a touchpoint may name a webhook, and journeyExists whether
// an enroll node may name a journey; nil: all of them exist.
func (d *Definition) Check(webhookExists, journeyExists func(id string) bool) waypost.Problems {
	c := checker{d: d, webhookExists: webhookExists, journeyExists: journeyExists}
	c.header()
	for i := range d.body.Nodes {
		c.node(i, element("nodes", i))
	}
	c.loops()
	c.reach()
	return c.p
}

type checker struct {
	d             *Definition
	webhookExists func(string) bool
	journeyExists func(string) bool
	conditions    int // so far: of the entry, the goal and the nodes
	conditionText int // of those, in bytes
	p             waypost.Problems
}

// header checks everything but the nodes.
func (c *checker) header() {
	b := c.d.body
	CheckName(&c.p, b.Name)
	checkText(&c.p, "description", b.Description, MaxDescription, "\t\r\n")
	c.tags()
	if b.Start == "" {
		c.p.Add(waypost.DetailNullValue, "start", "must name the first node")
	} else {
		c.reference("start", b.Start)
	}
	if r := b.Reentry; r != nil {
		switch r.Policy {
		case "", waypost.ReentryAfterExit, waypost.ReentryNever, waypost.ReentryAlways:
		default:
			c.p.Add(waypost.DetailOutOfRange, "reentry.policy", "must be afterExit, never or always")
		}
		if r.Every != "" {
			if _, ok := c.duration(r.Every, "reentry.every", "24h or P1D"); ok && r.Policy == waypost.ReentryNever {
				c.p.Add(waypost.DetailOutOfRange, "reentry.every", "has no effect with the policy never: a lead does not enter again")
			}
		}
	}
	c.entries()
	c.exitOn()
	c.goal()
	c.quietHours()
	c.frequencyCap()
	c.allComments()
	if len(b.Nodes) == 0 {
		c.p.Add(waypost.DetailNullValue, "nodes", "a journey has at least one node")
	}
	c.atMost(len(b.Nodes), MaxNodes, "nodes", "a journey has at most %d nodes, not %d")
}

// CheckName reports what is wrong with the name of a journey.
func CheckName(p *waypost.Problems, name string) {
	if strings.TrimSpace(name) == "" {
		p.Add(waypost.DetailNullValue, "name", "must not be empty")
		return
	}
	checkText(p, "name", name, MaxName, "")
}

// checkText checks a text that only people read; allowed are the control characters that
// it may hold.
func checkText(p *waypost.Problems, path, text string, limit int, allowed string) {
	refused := func(r rune) bool { return unicode.IsControl(r) && !strings.ContainsRune(allowed, r) }
	switch {
	case utf8.RuneCountInString(text) > limit:
		p.Add(waypost.DetailTooLong, path, "has at most %d characters", limit)
	case strings.ContainsFunc(text, refused):
		p.Add(waypost.DetailInvalidFormat, path, "must not hold control characters")
	}
}

func (c *checker) tags() {
	tags := c.d.body.Tags
	c.atMost(len(tags), waypost.MaxTags, "tags", "a journey has at most %d tags, not %d")
	for i, tag := range tags[:min(len(tags), waypost.MaxTags)] {
		path := element("tags", i)
		if first := slices.Index(tags, tag); first < i && tag != "" {
			c.p.Add(waypost.DetailDuplicate, path, "tags[%d] is the same", first)
		}
		if tag == "" {
			c.p.Add(waypost.DetailNullValue, path, "must not be empty")
		}
		checkText(&c.p, path, tag, waypost.MaxTag, "")
	}
}

// node checks a node: its id, its references, and the members of its type.
func (c *checker) node(i int, path string) {
	n := c.d.body.Nodes[i]
	switch first, known := c.d.index[n.ID]; {
	case n.ID == "":
		c.p.Add(waypost.DetailNullValue, path+".id", "must not be empty")
	case !isName(n.ID, "_-"):
		c.p.Add(waypost.DetailInvalidFormat, path+".id", "must be 1 to 64 letters, digits, _ and -")
	case known && first != i:
		c.p.Add(waypost.DetailDuplicate, path+".id", "nodes[%d] has the same id", first)
	}
	checkText(&c.p, path+".label", n.Label, MaxLabel, "")
	checkText(&c.p, path+".note", n.Note, MaxNote, "\t\r\n")
	for _, e := range n.edges() {
		c.reference(path+"."+e.member, e.to)
	}
	kindOf(n.Type).check(c, i, n, path)
}

// webhook checks that a webhook exists, if that is known.
func (c *checker) webhook(id, path string) {
	switch {
	case id == "":
		c.p.Add(waypost.DetailNullValue, path, "must name a webhook")
	case c.webhookExists != nil && !c.webhookExists(id):
		c.p.Add(waypost.DetailOutOfRange, path, "there is no webhook %q", waypost.Clip(id, 64))
	}
}

// journey checks that a journey exists, if that is known.
func (c *checker) journey(id, path string) {
	switch {
	case id == "":
		c.p.Add(waypost.DetailNullValue, path, "must name a journey")
	case !isName(id, "_-"):
		c.p.Add(waypost.DetailInvalidFormat, path, "must be the id of a journey")
	case c.journeyExists != nil && !c.journeyExists(id):
		c.p.Add(waypost.DetailOutOfRange, path, "there is no journey %q", waypost.Clip(id, 64))
	}
}

func (c *checker) template(text, path string) {
	if len(text) > MaxTemplate {
		c.p.Add(waypost.DetailTooLong, path, "has at most %d KiB", MaxTemplate>>10)
	} else if _, err := compileTemplate(text, c.d.hasTouchpoint); err != nil {
		c.p.Add(waypost.DetailInvalidFormat, path, "%s", err)
	}
}

// wait checks how long a node waits.
func (c *checker) wait(written, path string) {
	if wait, ok := c.duration(written, path, "72h or P3D"); ok && wait < minWait {
		c.p.Add(waypost.DetailOutOfRange, path, "must be 1ms or more")
	}
}

func (c *checker) eventName(name, path string) {
	if name == "" {
		c.p.Add(waypost.DetailNullValue, path, "must name an event")
	} else if !isName(name, "_-.") {
		c.p.Add(waypost.DetailInvalidFormat, path, "must be 1 to 64 letters, digits, _, - and .")
	}
}

// room tells whether more conditions may be compiled: that is the expensive part,
// and not for a journey that is refused anyway.
func (c *checker) room(path string, whens ...string) bool {
	c.conditions += len(whens)
	for _, when := range whens {
		c.conditionText += len(when)
	}
	switch {
	case c.conditions > MaxConditions:
		c.p.Add(waypost.DetailTooLong, path, "a journey has at most %d conditions", MaxConditions)
	case c.conditionText > MaxConditionText:
		c.p.Add(waypost.DetailTooLong, path, "the conditions of a journey have at most %d KiB together", MaxConditionText>>10)
	default:
		return true
	}
	return false
}

func (c *checker) condition(when string, compiled condition, path string) {
	switch {
	case strings.TrimSpace(when) == "":
		c.p.Add(waypost.DetailNullValue, path, "must be a condition")
	case utf8.RuneCountInString(when) > MaxCondition:
		c.p.Add(waypost.DetailTooLong, path, "has at most %d characters", MaxCondition)
	case compiled.err != nil:
		c.p.Add(waypost.DetailInvalidFormat, path, "%s", compiled.err)
	default:
		if err := compiled.misfit(); err != nil {
			c.p.Add(waypost.DetailInvalidFormat, path, "%s", err)
		}
	}
}

// reference reports a node id that names no node.
func (c *checker) reference(path, id string) {
	if _, ok := c.d.index[id]; !ok {
		c.p.Add(waypost.DetailOutOfRange, path, "there is no node %q", waypost.Clip(id, 64))
	}
}

// isName tells whether s is 1 to 64 ASCII letters, digits and others.
func isName(s, others string) bool {
	for _, r := range s {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if !letter && (r < '0' || r > '9') && !strings.ContainsRune(others, r) {
			return false
		}
	}
	return s != "" && len(s) <= 64
}
