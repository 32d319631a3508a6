package console

import (
	"html"
	"net/url"
	"strconv"
	"strings"

	"waypost"
)

// articlesPage is the data of the search of articles.
type articlesPage struct {
	Filters      filterBar
	Asked        bool
	Total        int
	Hits         []hit
	Before, More string
	Reindexing   *reindexing
	Faults       map[string]string
}

// hit is an article that was found.
type hit struct {
	ID, Slug, URL string
	Name, Text    []piece
	AccessLevel   int
	Channels      string
}

// piece is a part of a text, which is marked where it matches.
type piece struct {
	Text string
	Hit  bool
}

// The marks of the gateway's highlights (docs/contract.md, "Highlights").
const markBegin, markEnd = `<b class="highlight">`, `</b>`

// pieces splits a highlight at its marks. The template escapes each piece, so that an article's
// text brings no markup to the page.
func pieces(highlight string) (out []piece) {
	add := func(text string, hit bool) {
		if text != "" {
			out = append(out, piece{html.UnescapeString(text), hit})
		}
	}
	for highlight != "" {
		plain, rest, found := strings.Cut(highlight, markBegin)
		add(plain, false)
		if !found {
			break
		}
		marked, after, _ := strings.Cut(rest, markEnd)
		add(marked, true)
		highlight = after
	}
	return out
}

// articles searches only if a site and keywords are given; the site is remembered in the session.
// What is wrong with the search stands at its fields, not on a page of errors.
func (v *visit) articles() error {
	ctx := v.r.Context()
	filters := newFilterBar(v.r,
		filter{Name: "tenant_id", Label: v.t("articles.site")},
		filter{Name: "keywords", Label: v.t("articles.keywords"), Type: "search"},
		filter{Name: "from", Label: v.t("articles.which"), Type: "select", Options: []option{{"frontend", v.t("articles.published")}}},
	)
	if filters.Filters[0].Value == "" { // the site that was searched last
		filters.Filters[0].Value = v.sessions.GetString(ctx, "site")
	}
	p := articlesPage{Filters: filters, Asked: filters.Filters[0].Value != "" && filters.Filters[1].Value != ""}
	var err error
	if p.Reindexing, err = v.gateway.reindexing(ctx); err != nil {
		return err
	}
	if p.Asked {
		v.sessions.Put(ctx, "site", filters.Filters[0].Value)
		query := filters.values()
		if query.Get("from") == "" {
			query.Set("from", "admin")
		}
		at, _ := strconv.Atoi(v.r.URL.Query().Get("page"))
		at = max(at, 1)
		query.Set("_page", strconv.Itoa(at))
		query.Set("_per_page", "20")
		found, err := v.gateway.searchArticles(ctx, query)
		var general string
		if err != nil {
			if p.Faults, general, err = faultsOf(err); err != nil {
				return err
			}
			if general != "" {
				p.Faults[""] = general
			}
		}
		p.Total = found.Meta.TotalCount
		for _, item := range found.Items {
			h := hit{ID: item.ID, Slug: item.Slug, URL: webAddress(item.FrontendURL), Name: pieces(item.NameHighlight), Text: pieces(item.SearchHighlight), AccessLevel: item.AccessLevel}
			var names []string
			for _, c := range item.Channels {
				names = append(names, c.Name)
			}
			h.Channels = strings.Join(names, " › ")
			p.Hits = append(p.Hits, h)
		}
		turn := func(n int) string {
			query := filters.values()
			query.Set("page", strconv.Itoa(n))
			return filters.at(query)
		}
		if at > 1 {
			p.Before = turn(at - 1)
		}
		if at < found.Meta.TotalPages {
			p.More = turn(at + 1)
		}
	}
	live := 0
	if p.Reindexing != nil && !p.Reindexing.Ended() {
		live = 2
	}
	return v.render(page{Name: "articles", Title: v.t("articles.title"), Place: "articles", Live: live, Data: p})
}

// webAddress is an address that a link may lead to, "" if it is none: an article's may have
// no scheme.
func webAddress(address string) string {
	if address == "" {
		return ""
	}
	if !strings.Contains(address, "://") {
		address = "https://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" {
		return ""
	}
	return u.String()
}

// articleForm is the data of the page on which an article is written.
type articleForm struct {
	ID, ETag, URL string // ID is "" of a new one
	Fields        []field
	Channels      []channelRow
	Published     bool
	General       string
}

type channelRow struct {
	waypost.Channel
	Fault string
}

func (v *visit) newArticleForm(form url.Values, id string, faults map[string]string) articleForm {
	p := articleForm{ID: id, Published: form.Has("published")}
	input := func(name string, f field) {
		f.Name, f.Label, f.Value, f.Fault = name, v.t("articles.field."+name), form.Get(name), faultOf(faults, name)
		p.Fields = append(p.Fields, f)
	}
	if id == "" {
		input("id", field{Required: true, Hint: v.t("articles.idHint")})
	}
	input("tenant_id", field{Required: true, Hint: v.t("articles.siteHint")})
	input("name", field{Required: true})
	input("identifier", field{Required: true, Hint: v.t("articles.identifierHint")})
	input("frontend_url", field{})
	input("access_level", field{Type: "number", Hint: v.t("articles.levelHint")})
	input("published_at", field{Type: "datetime-local"})
	input("content", field{Type: "area"})
	ids := form["channel.id"]
	for i := range ids {
		p.Channels = append(p.Channels, channelRow{channelAt(form, i), faultOf(faults, "channels["+strconv.Itoa(i)+"]")})
	}
	p.Channels = append(p.Channels, channelRow{})
	return p
}

// channelAt is a row of channels.
func channelAt(form url.Values, i int) waypost.Channel {
	at := func(name string) string {
		if values := form["channel."+name]; i < len(values) {
			return strings.TrimSpace(values[i])
		}
		return ""
	}
	level, _ := strconv.Atoi(at("access_level"))
	return waypost.Channel{ID: at("id"), Slug: at("slug"), URL: at("url"), Name: at("name"), AccessLevel: level}
}

func (v *visit) renderArticle(p articleForm, title string) error {
	return v.render(page{Name: "article", Title: title, Place: "articles", Back: &link{Path: "/articles", Text: v.t("articles.title")}, Status: v.formStatus(), Scripts: []string{"pairs.js"}, Data: p})
}

func (v *visit) newArticle() error {
	form := url.Values{"published": {"yes"}, "access_level": {"0"}, "tenant_id": {v.sessions.GetString(v.r.Context(), "site")}}
	return v.renderArticle(v.newArticleForm(form, "", nil), v.t("articles.new"))
}

func (v *visit) article() error {
	a, etag, err := v.gateway.article(v.r.Context(), v.r.PathValue("id"))
	if err != nil {
		return err
	}
	form := url.Values{
		"tenant_id": {a.TenantID}, "name": {a.Name}, "identifier": {a.Identifier}, "content": {a.Content}, "frontend_url": {a.FrontendURL},
		"access_level": {strconv.Itoa(a.AccessLevel)}, "published_at": {a.PublishedAt.In(v.chosen.Zone).Format(localSecond)},
	}
	if a.Published {
		form.Set("published", "yes")
	}
	for _, c := range a.Channels {
		form.Add("channel.id", c.ID)
		form.Add("channel.slug", c.Slug)
		form.Add("channel.url", c.URL)
		form.Add("channel.name", c.Name)
		form.Add("channel.access_level", strconv.Itoa(c.AccessLevel))
	}
	p := v.newArticleForm(form, a.ID, nil)
	p.ETag, p.URL = etag, webAddress(a.FrontendURL)
	return v.renderArticle(p, a.Name)
}

// articleBody is the article that a form describes. A channel without anything is none.
func (v *visit) articleBody(form url.Values) map[string]any {
	text := func(name string) string { return strings.TrimSpace(form.Get(name)) }
	body := map[string]any{
		"tenant_id": text("tenant_id"), "name": text("name"), "identifier": text("identifier"), "frontend_url": text("frontend_url"),
		"content": strings.ReplaceAll(form.Get("content"), "\r\n", "\n"), "published": form.Has("published"),
	}
	if level := text("access_level"); level != "" {
		body["access_level"] = level
		if n, err := strconv.Atoi(level); err == nil {
			body["access_level"] = n
		}
	}
	channels := []waypost.Channel{}
	for i := range form["channel.id"] {
		if c := channelAt(form, i); c != (waypost.Channel{}) {
			channels = append(channels, c)
		}
	}
	body["channels"] = channels
	if at := text("published_at"); at != "" {
		body["published_at"] = filter{Type: "datetime-local", Value: at, Zone: v.chosen.Zone}.wire()
	}
	return body
}

func (v *visit) createArticle() error {
	return v.putArticle(strings.TrimSpace(v.r.PostFormValue("id")), "", "")
}

func (v *visit) saveArticle() error {
	id := v.r.PathValue("id")
	return v.putArticle(id, id, v.r.PostFormValue("etag"))
}

// putArticle stores an article; known is its id, "" for a new article.
func (v *visit) putArticle(id, known, etag string) error {
	ctx, form := v.r.Context(), v.r.PostForm
	if known == "" && id != "" { // a new one does not replace what is there
		switch _, _, err := v.gateway.article(ctx, id); {
		case err == nil:
			p := v.newArticleForm(form, "", map[string]string{"id": v.t("articles.taken")})
			return v.renderArticle(p, v.t("articles.new"))
		case waypost.CodeOf(err) != waypost.CodeNotFound && waypost.CodeOf(err) != waypost.CodeBadRequest:
			return err
		}
	}
	if id == "" {
		return v.renderArticle(v.newArticleForm(form, "", map[string]string{"id": v.t("articles.needId")}), v.t("articles.new"))
	}
	err := v.gateway.when(etag).putArticle(ctx, id, v.articleBody(form))
	if err == nil {
		v.flash("ok", v.t("articles.saved"))
		return v.redirect("/articles/"+url.PathEscape(id), nil)
	}
	faults, general, err := v.formFaults(err)
	if err != nil {
		return err
	}
	p := v.newArticleForm(form, known, faults)
	p.ETag, p.General = etag, general
	title := v.t("articles.new")
	if known != "" {
		title = form.Get("name")
	}
	return v.renderArticle(p, title)
}

func (v *visit) deleteArticle() error {
	ctx, id := v.r.Context(), v.r.PathValue("id")
	_, etag, err := v.gateway.article(ctx, id)
	if err == nil {
		err = v.gateway.when(etag).deleteArticle(ctx, id)
	}
	if err != nil {
		return err
	}
	v.flash("ok", v.t("articles.deleted"))
	return v.redirect("/articles", nil)
}

func (v *visit) reindex() error {
	if err := v.gateway.reindex(v.r.Context()); err != nil {
		return err
	}
	v.flash("ok", v.t("articles.reindexing"))
	return v.redirect("/articles", nil)
}
