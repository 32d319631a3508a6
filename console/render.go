package console

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/rand"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"

	"waypost/journey/nodes"
)

//go:embed templates/*.html
var templateFiles embed.FS

// pages holds the templates by language and page.
type pages map[string]map[string]*template.Template

// loadPages parses templates/*.html. layout.html and partials.html are part of every page;
// every other file is a page, and defines "main".
func loadPages() (pages, error) {
	files, err := fs.Glob(templateFiles, "templates/*.html")
	if err != nil {
		return nil, err
	}
	all := pages{}
	for _, language := range languages {
		shared, err := template.New("").Funcs(functions(language)).ParseFS(templateFiles, "templates/layout.html", "templates/partials.html")
		if err != nil {
			return nil, err
		}
		all[language] = map[string]*template.Template{}
		for _, file := range files {
			name := strings.TrimSuffix(path.Base(file), ".html")
			if name == "layout" || name == "partials" {
				continue
			}
			whole, err := shared.Clone()
			if err == nil {
				whole, err = whole.ParseFS(templateFiles, file)
			}
			if err != nil {
				return nil, err
			}
			all[language][name] = whole
		}
	}
	return all, nil
}

// functions are what templates can call beside the methods of view.
func functions(language string) template.FuncMap {
	return template.FuncMap{
		"t":        func(key string, args ...any) string { return translate(language, key, args...) },
		"place":    func(path string) string { return placeInWords(language, path) },
		"number":   anyNumber,
		"percent":  percent,
		"cause":    cause,
		"duration": duration,
		"tone":     tone,
		"tail":     tail,
		"state":    func(s any) string { return journeyTones[fmt.Sprint(s)] },
		"share":    shareOf,
		"count":    count,
		"asset":    asset,
		"icon":     icon,
		"kind":     func(name string) string { return kindName(language, name) },
		"colour":   func(kind string) nodes.Colour { return nodes.Of(kind).Colour },
		"dict":     dict,
	}
}

// kindName is what people call a type of nodes; one that only a newer gateway has is called by its name.
func kindName(language, name string) string {
	return cmp.Or(nodes.Of(name).Title.In(language), name)
}

// dict makes a map of names and values, for a partial that needs several.
func dict(pairs ...any) (map[string]any, error) {
	if len(pairs)%2 != 0 {
		return nil, fmt.Errorf("dict has a name without a value")
	}
	m := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		name, ok := pairs[i].(string)
		if !ok {
			return nil, fmt.Errorf("dict: %v is no name", pairs[i])
		}
		m[name] = pairs[i+1]
	}
	return m, nil
}

// page is what a handler renders.
type page struct {
	Name  string // of the file in templates/
	Title string
	// Place is the item of the navigation that the page belongs to, "" if none.
	Place string
	// Back is the page above, for the link beside the title: a path and its text.
	Back *link
	// Live has the page look for changes every so many seconds; 0: not. live.js then
	// replaces the elements that have data-live.
	Live int
	// Scripts are further modules of static/, Styles further style sheets.
	Scripts, Styles []string
	// Nonce is that of the style sheets that an editor of the page makes (visit.nonce).
	Nonce  string
	Status int // 200 if 0
	Data   any
}

// link leads to a page; Here says that it is the one that is shown (tabs).
type link struct {
	Path, Text string
	Here       bool
}

// render answers with a page inside the layout, 304 if the browser has it. Within makeLive it stores
// the content for all who look at the page, and answers nothing.
func (v *visit) render(p page) error {
	template := v.pages[v.chosen.Language][p.Name]
	if template == nil {
		return fmt.Errorf("there is no page %q", p.Name)
	}
	h := v.w.Header()
	var body bytes.Buffer
	part := "layout"
	if v.made != nil {
		part = "content"
	}
	if err := template.ExecuteTemplate(&body, part, v.newView(p)); err != nil {
		return fmt.Errorf("render %s: %w", p.Name, err)
	}
	if v.made != nil {
		*v.made = liveContent{p.Live, etagOf(body.Bytes()), body.Bytes(), zipped(body.Bytes())}
		return nil
	}
	if v.r.Header.Get(liveHeader) != "" {
		h.Set(liveHeader, strconv.Itoa(p.Live))
	}
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Add("Vary", "Cookie")
	v.status = p.Status
	if v.status == 0 {
		v.status = http.StatusOK
	}
	if v.status == http.StatusOK && v.r.Method == http.MethodGet {
		etag := etagOf(body.Bytes())
		h.Set("ETag", etag)
		if v.r.Header.Get("If-None-Match") == etag {
			v.status = http.StatusNotModified
			v.w.WriteHeader(v.status)
			return nil
		}
	}
	v.send(body.Bytes())
	return nil
}

// send answers with a body, compressed if the browser takes that.
func (v *visit) send(body []byte) {
	h := v.w.Header()
	h.Add("Vary", "Accept-Encoding")
	if !strings.Contains(v.r.Header.Get("Accept-Encoding"), "gzip") {
		v.w.WriteHeader(v.status)
		_, _ = v.w.Write(body) // the browser may have gone
		return
	}
	h.Set("Content-Encoding", "gzip")
	v.w.WriteHeader(v.status)
	_, _ = v.w.Write(zipped(body))
}

// zipped is a body, compressed.
func zipped(body []byte) []byte {
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	_, _ = zip.Write(body) // memory takes everything
	_ = zip.Close()
	return out.Bytes()
}

// nonce makes a nonce and adds it to the policy of this answer, which then takes style sheets with it.
func (v *visit) nonce() string {
	n := rand.Text()
	v.w.Header().Set("Content-Security-Policy", strings.Replace(policy, "style-src 'self'", "style-src 'self' 'nonce-"+n+"'", 1))
	return n
}

// etagOf is an ETag that changes with the body.
func etagOf(body []byte) string {
	sum := sha256.Sum256(body)
	return `"` + hex.EncodeToString(sum[:12]) + `"`
}
