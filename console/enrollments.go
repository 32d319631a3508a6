package console

import (
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"waypost"
	"waypost/journey/nodes"
)

// enrollmentPage is the data of the page of one enrollment.
type enrollmentPage struct {
	enrollmentDetail
	Journey    string // its name
	Lead       string // its name, or its number
	Steps      []timelineStep
	Deliveries []delivery
	Webhooks   names
	Segments   names // nil if neither its begin nor its end names one
	More       bool  // it has more deliveries
	ParamsText string
	May        bool // be paused, resumed or canceled

	definition definition // of its version
}

// Title is what people call a node.
func (p enrollmentPage) Title(id string) string { return p.definition.title(id) }

// timelineStep is an entry of a timeline, in words.
type timelineStep struct {
	At                   time.Time
	Node, What, Why, Raw string
	Next, Tone           string
	Version              int // that the enrollment is on from here, 0 if it is as before
}

// mostMessages bounds the messages that are shown beside a timeline.
const mostMessages = 100

// enrollment shows where a lead is in a journey, every 4 s anew until the enrollment has ended.
func (v *visit) enrollment() error {
	ctx := v.r.Context()
	e, err := v.gateway.enrollment(ctx, v.r.PathValue("id"))
	if err != nil {
		return err
	}
	p := enrollmentPage{
		enrollmentDetail: e, ParamsText: paramsText(e.Params), May: !e.Status.Ended() && v.user.Role.Allows(waypost.GrantJourneysRun),
	}
	err = together(func() error {
		journeys, webhooks, err := v.gateway.bothNames(ctx)
		p.Journey, p.Webhooks = journeys.Of(e.JourneyID), webhooks
		return err
	}, func() error {
		sent, err := v.gateway.listDeliveries(ctx, url.Values{"enrollmentId": {e.ID}, "limit": {strconv.Itoa(mostMessages)}})
		p.Deliveries, p.More = sent.Items, sent.NextCursor != ""
		return err
	}, func() (err error) {
		p.Lead, err = v.leadName(e.LeadsID)
		return err
	}, func() (err error) {
		if e.Entry.Segment != "" || slices.ContainsFunc(e.Timeline, func(t waypost.TimelineEntry) bool { return reasonSegment.MatchString(t.Reason) }) {
			if p.Segments, err = v.gateway.segmentNames(ctx); err != nil {
				return err
			}
		}
		p.Steps, p.definition, err = v.steps(e, p.Segments)
		return err
	})
	if err != nil {
		return err
	}
	live := 0
	if !e.Status.Ended() {
		live = 4
	}
	return v.render(page{
		Name: "enrollment", Title: v.t("enrollment.title", "lead", p.Lead, "journey", p.Journey), Place: "journeys", Live: live,
		Back: &link{Path: "/journeys/" + e.JourneyID, Text: p.Journey}, Data: p,
	})
}

// paramsText is what an enrollment was given, "" if that is nothing.
func paramsText(params json.RawMessage) string {
	if text := indented(params); text != "{}" {
		return text
	}
	return ""
}

// steps tells a timeline in words, with the labels that the nodes have in their versions. now is
// the version that the enrollment is on.
func (v *visit) steps(e enrollmentDetail, segments names) (steps []timelineStep, now definition, err error) {
	definitions := map[int]definition{}
	load := func(version int) (d definition, err error) {
		d, known := definitions[version]
		if !known {
			published, err := v.gateway.version(v.r.Context(), e.JourneyID, version)
			if err := unlessGone(err); err != nil {
				return d, err
			}
			if d, err = define(published.Definition); err != nil {
				return d, err
			}
			definitions[version] = d
		}
		return d, nil
	}
	if now, err = load(e.Version); err != nil {
		return nil, now, err
	}
	version := e.Version
	if len(e.Timeline) > 0 {
		version = e.Timeline[0].Version
	}
	for _, t := range e.Timeline {
		d, err := load(t.Version)
		if err != nil {
			return nil, now, err
		}
		s := timelineStep{At: t.At, Node: d.title(t.NodeID), Next: d.title(t.Next), What: v.happened(t.What, d.node(t.NodeID).Type), Tone: stepTones[t.What]}
		s.Why, s.Raw = v.why(t, segments)
		if t.Version != version {
			version, s.Version = t.Version, t.Version
		}
		steps = append(steps, s)
	}
	return steps, now, nil
}

// happened says what an entry of a timeline has as what, at a node of a type; "" is one of a version that is gone.
func (v *visit) happened(what, kind string) string {
	for _, t := range nodes.All {
		if words, own := t.Timeline[what]; own && (t.Name == kind || kind == "" && what != waypost.WhatFailed) {
			return words.In(v.chosen.Language)
		}
	}
	return v.t("enrollment.what." + what)
}

var stepTones = map[string]string{
	waypost.WhatSent: "ok", waypost.WhatMatched: "ok", waypost.WhatFailed: "bad", waypost.WhatSkipped: "warn", waypost.WhatDeferred: "warn",
	waypost.WhatPaused: "warn", waypost.WhatResumed: "info", waypost.WhatEntered: "info",
}

// Reasons as journeys write them (docs/journeys.md, "How the timeline tells why").
var (
	reasonUntil   = regexp.MustCompile(`^(?:(.*); )?(?:event (.*) )?until (\S+Z)$`)
	reasonArm     = regexp.MustCompile(`^arm (\d+): weight (\S+) of (\S+)$`)
	reasonSegment = regexp.MustCompile(`^segment (\S+?)(?:; (.*))?$`)
	reasonCase    = regexp.MustCompile(`^case (\d+): `)
	reasonEvent   = regexp.MustCompile(`^event ([^:]*)(?:: (.*))?$`)
	reasonWinner  = regexp.MustCompile(`^arm (\d+): the winner$`)
	reasonStatus  = regexp.MustCompile(`^httpStatus (\d+)$`)
	reasonMoved   = regexp.MustCompile(`^moved from version (\d+)$`)
	reasonEnroll  = regexp.MustCompile(`^(enrolled|not enrolled|held out by the control group): (.*)$`)
)

// enrollWords are the texts of what became of a node that enrolls.
var enrollWords = map[string]string{"enrolled": "enrolled", "not enrolled": "notEnrolled", "held out by the control group": "heldOut"}

// why is the reason of an entry in words. raw is the part of it that is shown as the engine wrote it:
// conditions of the journey's author and their results.
func (v *visit) why(t waypost.TimelineEntry, segments names) (words, raw string) {
	r := t.Reason
	switch {
	case r == "":
		return "", ""
	case t.What == waypost.WhatDeferred || t.What == waypost.WhatSkipped && slices.Contains(waypost.SkipReasons, r):
		return v.t("deferred." + r), ""
	case r == string(waypost.EntryLeadCreated), r == string(waypost.EntryLeadChanged):
		return v.t("enrollment.by." + r), ""
	case r == waypost.ReasonControlGroup:
		return v.t("enrollment.why.heldOut"), ""
	case t.What == waypost.WhatPaused, t.What == waypost.WhatResumed, t.What == waypost.WhatExited && r == "canceled":
		return v.t("enrollment.why." + r), ""
	}
	if m := reasonUntil.FindStringSubmatch(r); m != nil {
		at, err := time.Parse(time.RFC3339, m[3])
		if err != nil {
			return "", r
		}
		words, raw = v.why(waypost.TimelineEntry{What: t.What, Reason: m[1]}, segments) // what it began or goes on by
		if words != "" {
			words += " · "
		}
		until := at.In(v.chosen.Zone).Format(timeLayouts[v.chosen.Language])
		if m[2] != "" {
			return words + v.t("enrollment.why.eventUntil", "event", m[2], "time", until), raw
		}
		return words + v.t("enrollment.why.until", "time", until), raw
	}
	if m := reasonMoved.FindStringSubmatch(r); m != nil {
		return v.t("enrollment.why.moved", "n", m[1]), ""
	}
	if m := reasonEnroll.FindStringSubmatch(r); m != nil {
		return v.t("enrollment.why." + enrollWords[m[1]]), m[2]
	}
	if m := reasonArm.FindStringSubmatch(r); m != nil {
		return v.t("enrollment.why.arm", "arm", armName(m[1]), "weight", m[2], "all", m[3]), ""
	}
	if m := reasonWinner.FindStringSubmatch(r); m != nil {
		return v.t("enrollment.why.winner", "arm", armName(m[1])), ""
	}
	if m := reasonStatus.FindStringSubmatch(r); m != nil {
		return v.t("errorClass.httpStatus") + " " + m[1], ""
	}
	if m := reasonEvent.FindStringSubmatch(r); m != nil {
		return v.t("enrollment.why.event", "event", m[1]), m[2]
	}
	if m := reasonSegment.FindStringSubmatch(r); m != nil {
		return v.t("enrollment.why.segment", "segment", segments.Of(m[1])), m[2]
	}
	if m := reasonCase.FindStringSubmatch(r); m != nil {
		return v.t("enrollment.why.case", "case", m[1]), r[len(m[0]):]
	}
	if rest, otherwise := strings.CutPrefix(r, "otherwise"); otherwise {
		return v.t("enrollment.why.otherwise"), strings.TrimPrefix(rest, "; ")
	}
	if t.What == waypost.WhatFailed && slices.Contains(waypost.ErrorClasses, r) {
		return v.t("errorClass." + r), ""
	}
	return "", r
}

func (v *visit) pauseEnrollment() error  { return v.control("pause", nil) }
func (v *visit) cancelEnrollment() error { return v.control("cancel", nil) }

func (v *visit) resumeEnrollment() error {
	return v.control("resume", v.controlBody("resume"))
}

func (v *visit) control(verb string, body any) error {
	id := v.r.PathValue("id")
	if err := v.gateway.controlEnrollment(v.r.Context(), id, verb, body); err != nil {
		return err
	}
	v.flash("ok", v.t("enrollment.done."+verb))
	return v.redirect("/enrollments/"+url.PathEscape(id), nil)
}
