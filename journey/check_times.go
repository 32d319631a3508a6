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
