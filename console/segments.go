package console

import (
	"errors"
	"net/url"
	"strings"

	"waypost"
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
	Count  *segmentCount // nil: not asked for yet
	Sample []foundLead
	Slow   bool // the count took too long
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
	p := segmentPage{segment: s}
	switch c, err := v.gateway.countSegment(ctx, s.ID); {
	case busy(err):
		p.Slow = true
	case err != nil:
		return err
	default:
		p.Count = &c
		if p.Sample, err = v.named(c.Sample); err != nil {
			return err
		}
	}
	return v.renderSegment(p)
}

func (v *visit) renderSegment(p segmentPage) error {
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
	var found list[waypost.Lead]
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
	ID, ETag string // "" of a new one
	Fields   []field
	General  string // what is wrong with none of the fields
}

// renderSegmentForm shows the form. s is the segment that is changed, one without an id for a
// new one; err is why what was sent was refused.
func (v *visit) renderSegmentForm(s segment, etag string, form url.Values, refusal error) error {
	faults, general, err := v.formFaults(refusal)
	if err != nil {
		return err
	}
	p := segmentForm{ID: s.ID, ETag: etag, General: general, Fields: []field{
		{Name: "name", Label: v.t("webhooks.name"), Value: form.Get("name"), Required: true, Hint: v.t("segments.nameHint"), Complete: "off", Fault: faultOf(faults, "name")},
		{Name: "when", Type: "area", Label: v.t("segments.when"), Value: form.Get("when"), Required: true, Hint: v.t("segments.whenHint"), Complete: "off", Fault: faultOf(faults, "when")},
	}}
	title, back := v.t("segments.new"), &link{Path: "/segments", Text: v.t("segments.title")}
	if s.ID != "" {
		title, back = v.t("segments.edit"), &link{Path: "/segments/" + s.ID, Text: s.Name}
	}
	return v.render(page{Name: "segment_form", Title: title, Place: "segments", Back: back, Status: v.formStatus(), Data: p})
}

func (v *visit) newSegment() error { return v.renderSegmentForm(segment{}, "", url.Values{}, nil) }

func (v *visit) editSegment() error {
	s, etag, err := v.gateway.segment(v.r.Context(), v.r.PathValue("id"))
	if err != nil {
		return err
	}
	return v.renderSegmentForm(s, etag, url.Values{"name": {s.Name}, "when": {s.When}}, nil)
}

// segmentBody is the segment that the form describes.
func segmentBody(form url.Values) map[string]any {
	return map[string]any{"name": strings.TrimSpace(form.Get("name")), "when": strings.TrimSpace(form.Get("when"))}
}

func (v *visit) createSegment() error {
	made, err := v.gateway.createSegment(v.r.Context(), segmentBody(v.r.PostForm))
	if err != nil {
		return v.renderSegmentForm(segment{}, "", v.r.PostForm, err)
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
		return v.renderSegmentForm(s, etag, v.r.PostForm, err)
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
