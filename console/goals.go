package console

import (
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"waypost"
)

// goalOf is the goal of a definition.
type goalOf struct {
	Event  string `json:"event"`
	When   string `json:"when"`
	Within string `json:"within"` // waypost.DefaultWithin if empty
	Value  string `json:"value"`
}

// entryOf is a part of a definition's entry: one of the first four is set.
type entryOf struct {
	Event       string   `json:"event"`
	LeadCreated bool     `json:"leadCreated"`
	LeadChanged []string `json:"leadChanged"`
	Segment     string   `json:"segment"`
	When        string   `json:"when"`
	EntryKey    string   `json:"entryKey"`
}

// goalCounts is what became of leads whose enrollments have a goal.
type goalCounts struct {
	Leads       int64    `json:"leads"`
	Enrollments int64    `json:"enrollments"`
	Converted   int64    `json:"converted"` // leads
	Rate        *float64 `json:"rate"`      // nil of nobody
	Value       float64  `json:"value"`
	Open        int64    `json:"open"` // leads that can still convert
}

// groupRatio compares the share of the control group with the one that was asked for.
type groupRatio struct {
	Expected *float64 `json:"expected"`
	Seen     *float64 `json:"seen"`
	Mismatch bool     `json:"mismatch"`
}

// ExpectedText and SeenText are the shares as percentages.
func (r groupRatio) ExpectedText() string { return percent(r.Expected) }
func (r groupRatio) SeenText() string     { return percent(r.Seen) }

// armsRatio tells whether the arms of a split have the shares that their weights give them.
type armsRatio struct {
	Mismatch bool `json:"mismatch"`
}

// RateText is the rate as a percentage, a dash of nobody.
func (g goalCounts) RateText() string {
	if g.Rate == nil {
		return "–"
	}
	return percent(g.Rate)
}

// ValueText is the value, with separators.
func (g goalCounts) ValueText() string { return amount(g.Value) }

// amount writes a number of up to four decimals, with separators.
func amount(f float64) string {
	text := strconv.FormatFloat(math.Abs(f), 'f', -1, 64)
	whole, decimals, cut := strings.Cut(text, ".")
	if n, err := strconv.ParseInt(whole, 10, 64); err == nil {
		whole = number(n)
	}
	if cut {
		whole += "." + decimals
	}
	if f < 0 {
		return "-" + whole
	}
	return whole
}

// liftCounts is how much higher a rate is than that of the control group, or of the first arm.
type liftCounts struct {
	Difference *float64        `json:"difference"` // nil if one of both is nobody's
	Low        float64         `json:"low"`
	High       float64         `json:"high"`
	Confidence float64         `json:"confidence"`
	Verdict    waypost.Verdict `json:"verdict"`
}

// points writes a difference of rates in percentage points, with its sign.
func points(of1 float64) string {
	text := strconv.FormatFloat(of1*100, 'f', 1, 64)
	switch {
	case text == "-0.0":
		return "0.0"
	case of1 > 0 && text != "0.0":
		return "+" + text
	}
	return text
}

// DifferenceText, LowText and HighText are the numbers in percentage points.
func (l liftCounts) DifferenceText() string {
	if l.Difference == nil {
		return "–"
	}
	return points(*l.Difference)
}
func (l liftCounts) LowText() string  { return points(l.Low) }
func (l liftCounts) HighText() string { return points(l.High) }

// ConfidenceText is the confidence as a percentage.
func (l liftCounts) ConfidenceText() string {
	return strconv.FormatFloat(l.Confidence*100, 'f', -1, 64) + "%"
}

// Tone is the colour of the verdict.
func (l liftCounts) Tone() string {
	switch l.Verdict {
	case waypost.VerdictHigher:
		return "ok"
	case waypost.VerdictLower, waypost.VerdictMismatch:
		return "bad"
	}
	return ""
}

// Picture places the interval on a line from 0 to 300 with zero in its middle.
func (l liftCounts) Picture() liftPicture {
	reach := max(math.Abs(l.Low), math.Abs(l.High), 0.001) * 1.15 // a margin
	at := func(of1 float64) int { return int(math.Round(150 + 150*of1/reach)) }
	p := liftPicture{Low: at(l.Low), High: at(l.High)}
	p.Width = max(p.High-p.Low, 1)
	if l.Difference != nil {
		p.Dot = at(*l.Difference)
	}
	return p
}

// liftPicture has the places of a lift; Dot is 0 if there is no difference.
type liftPicture struct{ Low, High, Width, Dot int }

// armCounts is what became of the enrollments that took an arm of a split.
type armCounts struct {
	Arm  int         `json:"arm"` // from 1
	Next string      `json:"next"`
	Goal goalCounts  `json:"goal"`
	Lift *liftCounts `json:"lift"` // over the first arm, which has none
	// OverControlGroup is the lift over that; nil without one.
	OverControlGroup *liftCounts `json:"liftOverControlGroup"`
}

// armName is what people call an arm by its number, from 1: A, B, …, as the canvas does.
func armName(number string) string {
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || n > 26 {
		return number
	}
	return string(rune('A' + n - 1))
}

// Name is what people call the arm.
func (a armCounts) Name() string { return armName(strconv.Itoa(a.Arm)) }

// Name is what people call the arm that has won.
func (w winnerState) Name() string { return armName(strconv.Itoa(w.Arm)) }

// winnerState is what became of a split that compares its arms.
type winnerState struct {
	Version    int                   `json:"version"`
	Status     waypost.ContestStatus `json:"status"`
	Arm        int                   `json:"arm"` // from 1; 0 until it is decided
	Looks      int                   `json:"looks"`
	Arms       []goalCounts          `json:"arms"` // as they were when they were compared last
	DecidedAt  time.Time             `json:"decidedAt"`
	ReversedAt time.Time             `json:"reversedAt"`
}

// DecidedBy are the numbers that the winner was decided by, by arm.
func (w winnerState) DecidedBy() (arms []armCounts) {
	if w.DecidedAt.IsZero() {
		return nil
	}
	for i, g := range w.Arms {
		arms = append(arms, armCounts{Arm: i + 1, Goal: g})
	}
	return arms
}

// aims is what a journey begins by, and what it is for, in words.
type aims struct {
	Begins  []aim
	Goal    *aim
	Control string // the share of the control group, "" without one
}

// aim is an event or a change, and what is asked of it, as the journey's author wrote it.
type aim struct{ Text, When, Key, Value string }

// Any tells whether there is anything to say.
func (a aims) Any() bool { return len(a.Begins) > 0 || a.Goal != nil || a.Control != "" }

// Worth tells whether the goal says what its events are worth.
func (a aims) Worth() bool { return a.Goal != nil && a.Goal.Value != "" }

// aims is what begins a journey, its goal and its control group, in the person's language.
func (v *visit) aims(d definition, segments names) aims {
	var a aims
	for _, e := range d.Entry {
		text := v.t("goal.byLeadCreated")
		switch {
		case e.Event != "":
			text = v.t("goal.byEvent", "event", e.Event)
		case len(e.LeadChanged) > 0:
			text = v.t("goal.byLeadChanged", "fields", strings.Join(e.LeadChanged, ", "))
		case e.Segment != "":
			text = v.t("goal.bySegment", "segment", segments.Of(e.Segment))
		}
		a.Begins = append(a.Begins, aim{Text: text, When: e.When, Key: e.EntryKey})
	}
	if g := d.Goal; g != nil {
		within := g.Within
		if within == "" {
			within = waypost.DefaultWithin.String()
		}
		o := outline{t: v.t}
		a.Goal = &aim{Text: v.t("goal.reached", "event", g.Event, "within", o.span(within)), When: g.When, Value: g.Value}
	}
	if d.ControlGroup > 0 {
		a.Control = groupShare(d.ControlGroup)
	}
	return a
}

// reverseWinner has all arms of a split take leads again.
func (v *visit) reverseWinner() error {
	id, node := v.r.PathValue("id"), v.r.PathValue("node")
	var body any
	if text := v.r.PostFormValue("version"); text != "" {
		version, err := strconv.Atoi(text)
		if err != nil {
			return waypost.Errorf(waypost.CodeBadRequest, "version", "must be a number")
		}
		body = map[string]int{"version": version}
	}
	path := fmt.Sprintf("%s%s/winners/%s/reverse", journeysPath, url.PathEscape(id), url.PathEscape(node))
	if err := v.gateway.do(v.r.Context(), waypost.GrantJourneysRun, http.MethodPost, path, body, nil); err != nil {
		return err
	}
	v.flash("ok", v.t("goal.reversed"))
	return v.redirect("/journeys/"+url.PathEscape(id)+"?node="+url.QueryEscape(node), nil)
}
