package console

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strconv"

	"waypost"
)

// editTabs are the pages about a draft; a role that may only try it has no tabs.
func (v *visit) editTabs(h journeyHead, here string) []link {
	if !v.user.Role.Allows(waypost.GrantJourneysWrite) {
		return nil
	}
	return []link{
		{h.At + "/edit", v.t("edit.canvas"), here == "edit"}, {h.At + "/text", v.t("edit.text"), here == "text"},
		{h.At + "/try?draft=true", v.t("edit.try"), here == "try"}, {h.At + "/forecast", v.t("launch.forecast"), here == "forecast"}, {h.At + "/publish", v.t("edit.publish"), here == "publish"},
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
	return v.editing(page{Name: "edit_canvas", Nonce: v.nonce(), Scripts: []string{"canvas.js"}, Styles: []string{"canvas.css"}, Data: canvasPage{h, links(h)}}, h)
}

func (v *visit) draftJSON() error {
	return v.pass(journeysPath + url.PathEscape(v.r.PathValue("id")))
}

// saveJSON stores the draft that the canvas sends.
func (v *visit) saveJSON() error {
	body, err := v.body()
	if err != nil {
		return err
	}
	answer, etag, err := v.saveDraft(body, v.r.Header.Get("If-Match"))
	if err != nil {
		return err
	}
	return v.json(etag, answer)
}

// draftYAML is the draft as the editor of YAML loads it anew.
func (v *visit) draftYAML() error {
	h, err := v.loadHead(v.r.Context())
	if err != nil {
		return err
	}
	text, err := toYAML(h.Journey.Draft)
	if err != nil {
		return err
	}
	return v.document("application/yaml; charset=utf-8", h.ETag, []byte(text))
}

// saveYAML stores the text that the editor sends.
func (v *visit) saveYAML() error {
	text, err := v.body()
	if err != nil {
		return err
	}
	draft, err := toDraft(text)
	if err != nil {
		return err
	}
	answer, etag, err := v.saveDraft(draft, v.r.Header.Get("If-Match"))
	if err != nil {
		return err
	}
	return v.json(etag, answer)
}

// keepJSON stores a definition, JSON or YAML, as a journey of its own: what a person has written
// while somebody else saved the draft.
func (v *visit) keepJSON() error {
	text, err := v.body()
	if err != nil {
		return err
	}
	if text, err = toDraft(text); err != nil {
		return err
	}
	var draft map[string]json.RawMessage
	var name string
	if err := json.Unmarshal(text, &draft); err != nil || draft == nil {
		return waypost.Errorf(waypost.CodeBadRequest, "", "this is no definition")
	}
	if json.Unmarshal(draft["name"], &name) != nil || name == "" {
		j, err := v.gateway.journey(v.r.Context(), v.r.PathValue("id"))
		if err != nil {
			return err
		}
		name = j.Name
	}
	if draft["name"], err = json.Marshal(v.t("edit.copyName", "name", waypost.Clip(name, 120), "person", waypost.Clip(v.user.Name, 60))); err != nil {
		return err
	}
	made, err := v.gateway.createJourney(v.r.Context(), draft)
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]string{"name": made.Name, "path": "/journeys/" + made.ID + "/edit"})
	if err != nil {
		return err
	}
	return v.json(etagOf(body), body)
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
	var data textPage
	err := together(func() (err error) {
		data.Head, err = v.loadDraft("text")
		return err
	}, func() (err error) {
		data.Problems, err = v.problems(v.r.PathValue("id"))
		return err
	})
	if err != nil {
		return err
	}
	data.ETag = data.Head.ETag
	if data.Text, err = toYAML(data.Head.Journey.Draft); err != nil {
		return err
	}
	return v.textForm(http.StatusOK, data)
}

func (v *visit) textForm(status int, data textPage) error {
	p := page{Name: "edit_text", Status: status, Data: data}
	if status == http.StatusOK { // others answer the form, which is sent where yaml.js does not run
		p.Scripts, p.Nonce = []string{"yaml.js"}, v.nonce()
	}
	return v.editing(p, data.Head)
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
	Problems []stepProblem
	Diff     *difference // nil for the first version
	Next     int         // the number of the version that it becomes
	Seen     string      // the draft that is shown, as its ETag
	Affected []standingIn
}

// stepProblem is a problem with the step that it is of, "" where it is of the journey. Its target is
// in words.
type stepProblem struct {
	waypost.Detail
	Step, Path string
}

var nodeTarget = regexp.MustCompile(`^nodes\[(\d{1,4})\]\.?`)

// stepProblems finds the steps of problems, which the canvas opens; the settings of the journey for
// all others.
func (d definition) stepProblems(language, at string, found []waypost.Detail) (out []stepProblem) {
	for _, f := range found {
		p := stepProblem{Detail: f, Path: at + "/edit?settings=1"}
		if m := nodeTarget.FindStringSubmatch(f.Target); m != nil {
			if i, _ := strconv.Atoi(m[1]); i < len(d.Nodes) {
				id := d.Nodes[i].ID
				p.Step, p.Path, p.Target = d.title(id), at+"/edit?node="+url.QueryEscape(id), f.Target[len(m[0]):]
			}
		}
		p.Target = placeInWords(language, p.Target)
		out = append(out, p)
	}
	return out
}

// reviewPublish shows what publishing the draft would change. The form carries the draft's ETag, so
// that publish refuses one that was changed meanwhile.
func (v *visit) reviewPublish() error {
	h, err := v.loadDraft("publish")
	if err != nil {
		return err
	}
	draft, err := define(h.Journey.Draft)
	if err != nil {
		return err
	}
	data := publishPage{Head: h, Next: h.Journey.PublishedVersion + 1, Seen: etagOf(h.Journey.Draft)}
	err = together(func() error {
		found, err := v.problems(h.Journey.ID)
		data.Problems = draft.stepProblems(v.chosen.Language, h.At, found)
		return err
	}, func() error {
		if h.Journey.PublishedVersion == 0 {
			return nil
		}
		d, err := v.gateway.diff(v.r.Context(), h.Journey.ID, strconv.Itoa(h.Journey.PublishedVersion), "draft")
		data.Diff = &d
		return err
	}, func() (err error) {
		data.Affected, err = v.affected(h)
		return err
	})
	if err != nil {
		return err
	}
	return v.editing(page{Name: "publish", Data: data}, h)
}

// publish publishes the draft that the person has reviewed, or sends them back to review the
// present one.
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
	d, err := define(made.Definition)
	if err != nil {
		return err
	}
	switch {
	case made.Version > 1:
		v.flash("ok", v.t("edit.published", "n", made.Version))
	case len(d.Entry) > 0:
		v.flash("ok", v.t("edit.publishedEntry", "n", made.Version))
	default:
		v.flash("ok", v.t("edit.publishedFirst", "n", made.Version))
	}
	if v.r.PostFormValue("then") == "migrate" {
		return v.redirect("/journeys/"+id+"/migrate", nil)
	}
	return v.redirect("/journeys/"+id, nil)
}
