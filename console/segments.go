package console

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"waypost"
	"waypost/api"
)

// segmentsPage is the data of the list of segments.
type segmentsPage struct {
	Items []segment
	More  string
}

func (v *visit) segments() error {
	bar := newFilterBar(v.r)
	found, err := v.gateway.listSegments(v.r.Context(), bar.query(v.r))
	if err != nil {
		return err
	}
	return v.render(page{Name: "segments", Title: v.t("segments.title"), Place: "segments", Data: segmentsPage{found.Items, bar.more(found.NextCursor)}})
}

// segmentPage is the data of the page of one segment.
type segmentPage struct {
	segment
	counted
	Problems []waypost.Detail // in the person's language
}

// counted is how many leads are in a segment, or meet a condition.
type counted struct {
	Count  *api.SegmentCount // nil: not asked for yet, or not known
	Sample []foundLead
	Slow   bool // the count took too long
}

// counted names some of the leads that the gateway has counted, or says that it took too long.
func (v *visit) counted(c api.SegmentCount, err error) (counted, error) {
	if busy(err) {
		return counted{Slow: true}, nil
	}
	if err != nil {
		return counted{}, err
	}
	sample, err := v.named(c.Sample)
	return counted{Count: &c, Sample: sample}, err
}

// segment shows a segment. segment.js has it counted then, which may take seconds.
func (v *visit) segment() error {
	s, _, err := v.gateway.segment(v.r.Context(), v.r.PathValue("id"))
	if err != nil {
		return err
	}
	return v.renderSegment(segmentPage{segment: s})
}

// countSegment shows a segment with the number of its leads, for segment.js and for the link
// on its page.
func (v *visit) countSegment() error {
	ctx := v.r.Context()
	s, _, err := v.gateway.segment(ctx, v.r.PathValue("id"))
	if err != nil {
		return err
	}
	n, err := v.counted(v.gateway.countSegment(ctx, s.ID))
	if err != nil {
		return err
	}
	return v.renderSegment(segmentPage{segment: s, counted: n})
}

func (v *visit) renderSegment(p segmentPage) error {
	if stored := p.segment.Problems; stored != nil {
		p.Problems = v.inWords(*stored)
	}
	return v.render(page{
		Name: "segment", Title: p.Name, Place: "segments", Scripts: []string{"segment.js"},
		Back: &link{Path: "/segments", Text: v.t("segments.title")}, Data: p,
	})
}

// busy tells whether the gateway had no time for a call, or not enough of it.
func busy(err error) bool {
	code := waypost.CodeOf(err)
	return errors.As(err, new(away)) || code == waypost.CodeServiceUnavailable || code == waypost.CodeTooManyRequests
}

// membersPage is the data of the list of a segment's leads.
type membersPage struct {
	Items []waypost.Lead
	More  string
	Slow  bool // reading them took too long
}

func (v *visit) members() error {
	ctx, id, bar := v.r.Context(), v.r.PathValue("id"), newFilterBar(v.r)
	var s segment
	var found api.List[waypost.Lead]
	slow := false
	err := together(func() (err error) {
		s, _, err = v.gateway.segment(ctx, id)
		return err
	}, func() (err error) {
		found, err = v.gateway.listMembers(ctx, id, bar.query(v.r))
		if slow = busy(err); slow {
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	return v.render(page{
		Name: "segment_members", Title: v.t("segments.membersOf", "name", s.Name), Place: "segments", Back: &link{Path: "/segments/" + s.ID, Text: s.Name},
		Data: membersPage{found.Items, bar.more(found.NextCursor), slow},
	})
}

// segmentForm is the data of the page on which a segment is written.
type segmentForm struct {
	ID, ETag   string // "" of a new one
	Name, When field
	General    string // what is wrong with none of the fields
	Texts      string // of builder.js, as JSON
	counted
}

// segmentForm is the form with what was filled in. s is the segment that is changed, one without
// an id for a new one; refusal is why what was sent was refused.
func (v *visit) segmentForm(s segment, etag string, form url.Values, refusal error) (p segmentForm, err error) {
	faults, general, err := v.formFaults(refusal)
	if err != nil {
		return p, err
	}
	texts, err := json.Marshal(v.builderTexts())
	return segmentForm{
		ID: s.ID, ETag: etag, General: general, Texts: string(texts),
		Name: field{Name: "name", Label: v.t("webhooks.name"), Value: form.Get("name"), Required: true, Hint: v.t("segments.nameHint"), Complete: "off", Fault: faultOf(faults, "name")},
		When: field{Name: "when", Type: "area", Label: v.t("segments.cel"), Value: form.Get("when"), Required: true, Hint: v.t("segments.whenHint"), Complete: "off", Fault: faultOf(faults, "when")},
	}, err
}

// builderTexts are the texts of builder.js, by their keys in the catalogue without "builder.". The
// names of fields and of genders have keys of their own there.
func (v *visit) builderTexts() map[string]string {
	texts := v.texts("builder.")
	for name, label := range v.texts("leads.field.") {
		if texts["what."+name] == "" {
			texts["what."+name] = label
		}
	}
	for value, label := range v.texts("leads.gender.") {
		texts["gender."+value] = label
	}
	return texts
}

func (v *visit) renderSegmentForm(s segment, status int, p segmentForm) error {
	title, back := v.t("segments.new"), &link{Path: "/segments", Text: v.t("segments.title")}
	if s.ID != "" {
		title, back = v.t("segments.edit"), &link{Path: "/segments/" + s.ID, Text: s.Name}
	}
	return v.render(page{Name: "segment_form", Title: title, Place: "segments", Back: back, Scripts: []string{"builder.js"}, Nonce: v.nonce(), Status: status, Data: p})
}

// showSegmentForm shows the form, after a refusal with what is wrong.
func (v *visit) showSegmentForm(s segment, etag string, form url.Values, refusal error) error {
	p, err := v.segmentForm(s, etag, form, refusal)
	if err != nil {
		return err
	}
	return v.renderSegmentForm(s, v.formStatus(), p)
}

// countWhen answers with the form and the number of leads that meet its condition, for
// builder.js and for the button beside it.
func (v *visit) countWhen() error {
	ctx, form := v.r.Context(), v.r.PostForm
	var s segment
	if id := form.Get("id"); id != "" {
		var err error
		if s, _, err = v.gateway.segment(ctx, id); err != nil {
			return err
		}
	}
	n, refusal := v.counted(v.gateway.countWhen(ctx, whenOf(form)))
	p, err := v.segmentForm(s, form.Get("etag"), form, refusal)
	if err != nil {
		return err
	}
	p.counted = n
	return v.renderSegmentForm(s, http.StatusOK, p)
}

// builderOptions has what the rows of a condition can be about.
func (v *visit) builderOptions() error {
	ctx := v.r.Context()
	var fields []customField
	var events, channels []string
	var properties map[string][]string
	var journeys, segments names
	err := together(func() (err error) {
		fields, err = v.gateway.customFields(ctx)
		return err
	}, func() (err error) {
		events, err = v.gateway.eventNames(ctx)
		return err
	}, func() (err error) {
		properties, err = v.gateway.eventProperties(ctx)
		return err
	}, func() (err error) {
		channels, err = v.gateway.channels(ctx)
		return err
	}, func() (err error) {
		journeys, err = v.gateway.journeyNames(ctx)
		return err
	}, func() (err error) {
		segments, err = v.gateway.segmentNames(ctx)
		return err
	})
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]any{"fields": fields, "events": events, "properties": properties, "channels": channels, "journeys": journeys, "segments": segments})
	if err != nil {
		return err
	}
	return v.json(etagOf(body), body)
}

func (v *visit) newSegment() error { return v.showSegmentForm(segment{}, "", url.Values{}, nil) }

func (v *visit) editSegment() error {
	s, etag, err := v.gateway.segment(v.r.Context(), v.r.PathValue("id"))
	if err != nil {
		return err
	}
	return v.showSegmentForm(s, etag, url.Values{"name": {s.Name}, "when": {s.When}}, nil)
}

// segmentBody is the segment that the form describes.
func segmentBody(form url.Values) map[string]any {
	return map[string]any{"name": strings.TrimSpace(form.Get("name")), "when": whenOf(form)}
}

// whenOf is the condition of the form, whose lines browsers end with \r\n.
func whenOf(form url.Values) string {
	return strings.TrimSpace(strings.ReplaceAll(form.Get("when"), "\r\n", "\n"))
}

func (v *visit) createSegment() error {
	made, err := v.gateway.createSegment(v.r.Context(), segmentBody(v.r.PostForm))
	if err != nil {
		return v.showSegmentForm(segment{}, "", v.r.PostForm, err)
	}
	v.flash("ok", v.t("segments.created"))
	return v.redirect("/segments/"+made.ID, nil)
}

func (v *visit) saveSegment() error {
	ctx, id, etag := v.r.Context(), v.r.PathValue("id"), v.r.PostForm.Get("etag")
	s, _, err := v.gateway.segment(ctx, id)
	if err != nil {
		return err
	}
	if err := v.gateway.when(etag).replaceSegment(ctx, id, segmentBody(v.r.PostForm)); err != nil {
		return v.showSegmentForm(s, etag, v.r.PostForm, err)
	}
	v.flash("ok", v.t("segments.saved"))
	return v.redirect("/segments/"+url.PathEscape(id), nil)
}

// deleteSegment deletes a segment, or says on its page who uses it.
func (v *visit) deleteSegment() error {
	id := v.r.PathValue("id")
	err := v.gateway.deleteSegment(v.r.Context(), id)
	if waypost.CodeOf(err) == waypost.CodeConflict {
		_, used, _ := faultsOf(err)
		v.flash("bad", used)
		return v.redirect("/segments/"+url.PathEscape(id), nil)
	}
	if err != nil {
		return err
	}
	v.flash("ok", v.t("segments.deleted"))
	return v.redirect("/segments", nil)
}
