package journey

import (
	"slices"
	"time"

	"waypost"
)

func (c *checker) exitOn() {
	exits := c.d.body.ExitOn
	c.atMost(len(exits), MaxExits, "exitOn", "a journey has at most %d events and segments that it exits on, not %d")
	for i, e := range exits {
		path := element("exitOn", i)
		first := slices.IndexFunc(exits, func(o exitOn) bool { return o.Event == e.Event && o.Segment == e.Segment && o.On == e.On })
		switch {
		case e.Segment == "" && e.On == "":
			c.eventName(e.Event, path+".event")
			if first < i && e.Event != "" {
				c.p.Add(waypost.DetailDuplicate, path+".event", "exitOn[%d] is the same event", first)
			}
		case e.Event != "":
			c.p.Add(waypost.DetailInvalidFormat, path, "must have only one of event and segment")
		default:
			c.segment(e.Segment, e.On, path)
			if first < i && e.Segment != "" {
				c.p.Add(waypost.DetailDuplicate, path+".segment", "exitOn[%d] is the same segment", first)
			}
		}
	}
}

// onEnter is what a lead does to a segment that begins or ends enrollments.
const onEnter = "enter"

// segment checks the segment that leads enter, at a path.
func (c *checker) segment(id, on, path string) {
	switch {
	case id == "":
		c.p.Add(waypost.DetailNullValue, path+".segment", "must name a segment")
	case !waypost.IsID(waypost.PrefixSegment, id):
		c.p.Add(waypost.DetailInvalidFormat, path+".segment", "must be the id of a segment, such as %s…, not %q", waypost.PrefixSegment, waypost.Clip(id, 80))
	}
	switch on {
	case onEnter:
	case "":
		c.p.Add(waypost.DetailNullValue, path+".on", "must be %s", onEnter)
	default:
		c.p.Add(waypost.DetailOutOfRange, path+".on", "must be %s: only entering a segment counts, not %q", onEnter, waypost.Clip(on, 80))
	}
}

func (c *checker) quietHours() {
	q := c.d.body.QuietHours
	if q == nil {
		return
	}
	from, ok := c.clock(q.From, "quietHours.from")
	to, ok2 := c.clock(q.To, "quietHours.to")
	if ok && ok2 && from == to {
		c.p.Add(waypost.DetailOutOfRange, "quietHours.to", "must not be the same as from: no touchpoint would ever go out")
	}
	c.zone(q.Timezone, "quietHours.timezone")
}

func (c *checker) frequencyCap() {
	f := c.d.body.FrequencyCap
	if f == nil {
		return
	}
	c.number(f.Touchpoints, MaxCap, "frequencyCap.touchpoints")
	per, ok := c.duration(f.Per, "frequencyCap.per", "24h or P7D")
	if ok && (per < time.Second || per > MaxCapPeriod) {
		c.p.Add(waypost.DetailOutOfRange, "frequencyCap.per", "must be between 1s and 366 days")
	}
}

// waitUntil checks that there is a time of day or a date of the lead, and that the offset is at most
// MaxOffset.
func (c *checker) waitUntil(n Node, path string) {
	switch {
	case n.Time != "":
		c.clock(n.Time, path+".time")
	case n.Lead == "":
		c.p.Add(waypost.DetailNullValue, path+".time", "must be a time such as 09:00, unless lead names a date of the lead")
	}
	c.zone(n.Timezone, path+".timezone")
	for i, day := range n.Weekdays {
		at := path + "." + element("weekdays", i)
		if _, ok := weekdays[day]; !ok {
			c.p.Add(waypost.DetailOutOfRange, at, "must be mon, tue, wed, thu, fri, sat or sun")
		} else if first := slices.Index(n.Weekdays, day); first < i {
			c.p.Add(waypost.DetailDuplicate, at, "weekdays[%d] is the same day", first)
		}
	}
	if n.Lead != "" && !isLeadDate(n.Lead) {
		c.p.Add(waypost.DetailOutOfRange, path+".lead", "must be birthday, createdAt, updatedAt or customFields.NAME")
	}
	c.missed(n, path+".onMissed")
	switch offset, err := n.offset(); {
	case err != nil:
		c.p.Add(waypost.DetailInvalidFormat, path+".offset", "%s", err)
	case offset.Abs() > MaxOffset:
		c.p.Add(waypost.DetailOutOfRange, path+".offset", "must be between -366 and 366 days")
	case n.Offset != "" && n.Lead == "":
		c.p.Add(waypost.DetailOutOfRange, path+".offset", "counts from a date of the lead, and lead names none")
	}
}

// missed checks where a lead goes on that has no date to wait for. A date that comes
// once can be over for any lead; a birthday comes again.
func (c *checker) missed(n Node, path string) {
	switch {
	case n.OnMissed != "" && n.Lead == "":
		c.p.Add(waypost.DetailOutOfRange, path, "is for a date of the lead, and lead names none")
	case n.OnMissed == "" && n.Lead != birthday && isLeadDate(n.Lead):
		c.p.Add(waypost.DetailNullValue, path, "must name where node %q sends leads whose %s is missing, invalid, in the past or more than 100 years ahead: "+
			"a node to go on at, or an exit node", waypost.Clip(n.ID, 64), waypost.Clip(n.Lead, 80))
	}
}

func (c *checker) split(n Node, path string) {
	arms := path + ".arms"
	switch {
	case len(n.Arms) == 0:
		c.p.Add(waypost.DetailNullValue, arms, "a split has at least two arms")
	case len(n.Arms) == 1:
		c.p.Add(waypost.DetailOutOfRange, arms, "a split has at least two arms")
	}
	c.atMost(len(n.Arms), MaxArms, arms, "a split has at most %d arms, not %d")
	for i, a := range n.Arms {
		c.number(a.Weight, MaxWeight, arms+element("", i)+".weight")
	}
	c.winner(n.Winner, path+".winner")
}

func (c *checker) enroll(n Node, path string) {
	path += ".journey"
	switch {
	case n.Journey == "":
		c.p.Add(waypost.DetailNullValue, path, "must name a journey")
	case !isName(n.Journey, "_-"):
		c.p.Add(waypost.DetailInvalidFormat, path, "must be the id of a journey")
	case c.journeyExists != nil && !c.journeyExists(n.Journey):
		c.p.Add(waypost.DetailOutOfRange, path, "there is no journey %q", waypost.Clip(n.Journey, 64))
	}
}

// atMost checks the length of a list; text takes both numbers.
func (c *checker) atMost(n, most int, path, text string) {
	if n > most {
		c.p.Add(waypost.DetailTooLong, path, text, most, n)
	}
}

// number checks a number from 1 to most.
func (c *checker) number(n, most int, path string) {
	switch {
	case n == 0:
		c.p.Add(waypost.DetailNullValue, path, "must be a number from 1 to %d", most)
	case n < 0 || n > most:
		c.p.Add(waypost.DetailOutOfRange, path, "must be a number from 1 to %d", most)
	}
}

// duration checks a duration.
func (c *checker) duration(written, path, examples string) (time.Duration, bool) {
	if written == "" {
		c.p.Add(waypost.DetailNullValue, path, "must be a duration such as %s", examples)
		return 0, false
	}
	d, err := waypost.ParseDuration(written)
	if err != nil {
		c.p.Add(waypost.DetailInvalidFormat, path, "%s", err)
	}
	return time.Duration(d), err == nil
}

// clock checks a time of day.
func (c *checker) clock(written, path string) (time.Duration, bool) {
	if written == "" {
		c.p.Add(waypost.DetailNullValue, path, "must be a time such as 09:00")
		return 0, false
	}
	t, ok := parseClock(written)
	if !ok {
		c.p.Add(waypost.DetailInvalidFormat, path, "%q is no time; write it like 09:00, from 00:00 to 23:59", waypost.Clip(written, 40))
	}
	return t, ok
}

// zone checks the name of a time zone; it may be absent.
func (c *checker) zone(name, path string) {
	if name == "" {
		return
	}
	if _, ok := waypost.Zone(name); !ok {
		c.p.Add(waypost.DetailOutOfRange, path, "there is no time zone %q; write it like Asia/Shanghai", waypost.Clip(name, 64))
	}
}
