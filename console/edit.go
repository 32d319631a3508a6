package console

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"waypost"
)

// editTabs are the pages about a draft: none for those who may only try it.
func (v *visit) editTabs(h journeyHead, here string) []link {
	if !v.user.Role.Allows(waypost.GrantJourneysWrite) {
		return nil
	}
	return []link{
		{h.At + "/edit", v.t("edit.canvas"), here == "edit"}, {h.At + "/text", v.t("edit.text"), here == "text"},
		{h.At + "/try?draft=true", v.t("edit.try"), here == "try"}, {h.At + "/publish", v.t("edit.publish"), here == "publish"},
	}
}

// loadDraft reads a journey for a page about its draft.
func (v *visit) loadDraft(here string) (h journeyHead, err error) {
	h, err = v.loadHead(v.r.Context())
	if err == nil {
		h.Tabs = v.editTabs(h, here)
	}
	return h, err
}

// editing is a page about the draft of a journey.
func (v *visit) editing(p page, h journeyHead) error {
	if p.Title == "" {
		p.Title = v.t("edit.title", "name", h.Journey.Name)
	}
	p.Back = &link{Path: h.At, Text: h.Journey.Name}
	return v.renderJourney(p, h)
}

func (v *visit) editCanvas() error {
	h, err := v.loadDraft("edit")
	if err != nil {
		return err
	}
	return v.editing(page{Name: "edit_canvas", Scripts: []string{"canvas.js"}, Styles: []string{"canvas.css"}, Data: canvasPage{h, links(h)}}, h)
}

func (v *visit) draftJSON() error {
	return v.pass(journeysPath + url.PathEscape(v.r.PathValue("id")))
}

// saveJSON stores the draft that the canvas sends.
func (v *visit) saveJSON() error {
	body, err := io.ReadAll(v.r.Body)
	if err != nil {
		return err
	}
	answer, etag, err := v.saveDraft(body, v.r.Header.Get("If-Match"))
	if err != nil {
		return err
	}
	return v.json(etag, answer)
}

func (v *visit) saveDraft(draft []byte, etag string) (answer []byte, newTag string, err error) {
	return v.gateway.when(etag).exchange(v.r.Context(), waypost.GrantJourneysWrite, http.MethodPut, journeysPath+url.PathEscape(v.r.PathValue("id")), nil, draft)
}

// problems are what would keep the draft from being published: a dry run of it checks that.
func (v *visit) problems(id string) ([]waypost.Detail, error) {
	_, err := v.gateway.dryRun(v.r.Context(), id, map[string]any{"draft": true, "lead": map[string]any{"name": "-"}})
	if found := detailsOf(err); len(found) > 0 {
		return found, nil
	}
	if asked := (*waypost.Error)(nil); errors.As(err, &asked) && asked.Code == waypost.CodeBadRequest {
		return []waypost.Detail{{Target: asked.Target, Message: asked.Message}}, nil
	}
	return nil, err
}

func (v *visit) checkJSON() error {
	found, err := v.problems(v.r.PathValue("id"))
	if err != nil {
		return err
	}
	if found == nil {
		found = []waypost.Detail{}
	}
	body, err := json.Marshal(map[string]any{"problems": found})
	if err != nil {
		return err
	}
	return v.json(etagOf(body), body)
}

// textPage edits the draft as YAML.
type textPage struct {
	Head     journeyHead
	Text     string
	ETag     string
	Problems []waypost.Detail
	Fault    string // that is about no part of the text
	Conflict string // what is stored now, where somebody else has saved meanwhile
}

func (v *visit) editText() error {
	h, err := v.loadDraft("text")
	if err != nil {
		return err
	}
	text, err := toYAML(h.Journey.Draft)
	if err != nil {
		return err
	}
	found, err := v.problems(h.Journey.ID)
	if err != nil {
		return err
	}
	return v.textForm(http.StatusOK, textPage{Head: h, Text: text, ETag: h.ETag, Problems: found})
}

func (v *visit) textForm(status int, data textPage) error {
	return v.editing(page{Name: "edit_text", Status: status, Scripts: []string{"edit.js"}, Data: data}, data.Head)
}

// saveText stores the text of the form. What is wrong with it is shown beside it.
func (v *visit) saveText() error {
	data := textPage{Text: v.r.PostFormValue("text"), ETag: v.r.PostFormValue("etag")}
	draft, err := toDraft([]byte(data.Text))
	if err == nil {
		_, _, err = v.saveDraft(draft, data.ETag)
	}
	var asked *waypost.Error
	switch {
	case err == nil:
		v.flash("ok", v.t("edit.saved"))
		return v.redirect("/journeys/"+v.r.PathValue("id")+"/text", nil)
	case errors.As(err, &asked) && asked.Code == waypost.CodePreconditionFailed:
		return v.conflict(data)
	case errors.As(err, &asked) && (asked.Code == waypost.CodeBadRequest || asked.Code == waypost.CodeUnprocessableEntity || asked.Code == waypost.CodePayloadTooLarge):
		data.Problems = asked.Details
		if len(asked.Details) == 0 {
			data.Fault = asked.Message
		}
		if data.Head, err = v.loadDraft("text"); err != nil {
			return err
		}
		return v.textForm(http.StatusBadRequest, data)
	}
	return err
}

// conflict shows both texts; saving again replaces what is stored.
func (v *visit) conflict(data textPage) error {
	h, err := v.loadDraft("text")
	if err != nil {
		return err
	}
	data.Head, data.ETag = h, h.ETag
	if data.Conflict, err = toYAML(h.Journey.Draft); err != nil {
		return err
	}
	return v.textForm(http.StatusConflict, data)
}

// publishPage shows what publishing the draft would change, and what keeps it from that.
type publishPage struct {
	Head     journeyHead
	Problems []waypost.Detail
	Diff     *difference // nil for the first version
	Next     int         // the number of the version that it becomes
	Seen     string      // the draft that is shown, as its ETag
}

func (v *visit) reviewPublish() error {
	h, err := v.loadDraft("publish")
	if err != nil {
		return err
	}
	data := publishPage{Head: h, Next: h.Journey.PublishedVersion + 1, Seen: etagOf(h.Journey.Draft)}
	err = together(func() (err error) {
		data.Problems, err = v.problems(h.Journey.ID)
		return err
	}, func() error {
		if h.Journey.PublishedVersion == 0 {
			return nil
		}
		d, err := v.gateway.diff(v.r.Context(), h.Journey.ID, strconv.Itoa(h.Journey.PublishedVersion), "draft")
		data.Diff = &d
		return err
	})
	if err != nil {
		return err
	}
	return v.editing(page{Name: "publish", Data: data}, h)
}

func (v *visit) publish() error {
	id := v.r.PathValue("id")
	now, err := v.gateway.journey(v.r.Context(), id)
	if err != nil {
		return err
	}
	if etagOf(now.Draft) != v.r.PostFormValue("seen") {
		v.flash("bad", v.t("form.changed"))
		return v.redirect("/journeys/"+id+"/publish", nil)
	}
	var made version
	err = v.gateway.do(v.r.Context(), waypost.GrantJourneysWrite, http.MethodPost, journeysPath+url.PathEscape(id)+"/publish", nil, &made)
	if len(detailsOf(err)) > 0 { // somebody has changed the draft meanwhile: the page says what is wrong
		return v.redirect("/journeys/"+id+"/publish", nil)
	}
	if err != nil {
		return err
	}
	v.flash("ok", v.t("edit.published", "n", made.Version))
	return v.redirect("/journeys/"+id, nil)
}

// tryPage is a dry run on one lead.
type tryPage struct {
	Head     journeyHead
	Lead     field
	Draft    bool
	Problems []waypost.Detail
	Run      *dryRun
	Webhooks names
	Messages []string // bodies, as they would be sent
	t        func(key string, args ...any) string
}

// Result is what became of a visit, in words: case 2 and arm 2 have a number.
func (p tryPage) Result(result string) string {
	kind, n, numbered := strings.Cut(result, " ")
	switch {
	case numbered && kind == "case":
		return p.t("try.case", "n", n)
	case numbered && kind == "arm":
		return p.t("try.arm", "n", n)
	case numbered && kind == "event":
		return p.t("try.event", "n", n)
	}
	return p.t("try.result." + result)
}

// Title is what people call a node of the run.
func (p tryPage) Title(id string) string { return p.Head.Definition.title(id) }

func (v *visit) try() error {
	ctx := v.r.Context()
	h, err := v.loadDraft("try")
	if err != nil {
		return err
	}
	q := v.r.URL.Query()
	data := tryPage{Head: h, t: v.t, Draft: q.Get("draft") == "true" || h.Journey.PublishedVersion == 0,
		Lead: field{Name: "leadsId", Label: v.t("try.lead"), Type: "number", Required: true, Value: q.Get("leadsId"), Hint: v.t("try.leadHint")}}
	text := h.Journey.Draft
	if !data.Draft {
		if text, err = v.definitionOf(ctx, h.Journey); err != nil {
			return err
		}
	}
	if data.Head.Definition, err = define(text); err != nil {
		return err
	}
	if data.Lead.Value != "" {
		lead, err := strconv.ParseInt(data.Lead.Value, 10, 64)
		if err != nil || lead < 1 {
			data.Lead.Fault = v.t("form.wholeNumber")
		} else if err := v.dryRun(&data, lead); err != nil {
			return err
		}
	}
	if data.Webhooks, err = v.gateway.webhookNames(ctx); err != nil {
		return err
	}
	return v.editing(page{Name: "try", Title: v.t("try.title", "name", h.Journey.Name), Data: data}, h)
}

// dryRun runs the journey for a lead, and notes what is wrong where it cannot.
func (v *visit) dryRun(data *tryPage, lead int64) error {
	run, err := v.gateway.dryRun(v.r.Context(), data.Head.Journey.ID, map[string]any{"leadsId": lead, "draft": data.Draft})
	var asked *waypost.Error
	switch {
	case errors.As(err, &asked) && asked.Code == waypost.CodeNotFound:
		data.Lead.Fault = v.t("try.noLead")
		return nil
	case len(detailsOf(err)) > 0:
		data.Problems = detailsOf(err)
		return nil
	case err != nil:
		return err
	}
	data.Run = &run
	for _, m := range run.Messages {
		data.Messages = append(data.Messages, indented(m.Body))
	}
	return nil
}
