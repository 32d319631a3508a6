package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"waypost"
)

const (
	searchPath = "/api/v1/articles/search"
	tokensPath = "/v1/tokens"
)

func (c *cli) articlesSearch() *cobra.Command {
	var tenant, from string
	var level, page, perPage int
	cmd := &cobra.Command{
		Use: "search KEYWORDS...", Short: "Search the articles of a content site",
		Long: `Shows a page of the articles that hold all the keywords, those with them in the title first, then the
newest. A terminal shows in bold what was found.

The search token, and the site where --tenant names none, are those of the profile. Where it has none, or
one that is not for this search, the command asks for a token with the profile's keys (grant
tokens.issue) and uses it for this search only.`,
		Example: `  waypost articles search 报销
  waypost articles search travel expenses --tenant help-centre --level 0
  waypost articles search 报销 --from admin --page 2 --per-page 50 -o json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cl, err := c.client()
			if err != nil {
				return err
			}
			if tenant = cmp.Or(tenant, cl.profile.TenantID); tenant == "" {
				return usagef("search needs --tenant ID, the site to search: the profile names none")
			}
			query := url.Values{"tenant_id": {tenant}, "from": {from}, "keywords": {strings.Join(args, " ")}}
			for flag, p := range map[string]struct {
				name  string
				value int
			}{"level": {"user_access_level", level}, "page": {"_page", page}, "per-page": {"_per_page", perPage}} {
				if cmd.Flags().Changed(flag) {
					query.Set(p.name, strconv.Itoa(p.value))
				}
			}
			a, err := cl.search(cmd.Context(), query)
			if err != nil {
				return err
			}
			return c.printHits(a)
		},
	}
	f := cmd.Flags()
	f.StringVar(&tenant, "tenant", "", "the site; by default the profile's")
	f.StringVar(&from, "from", string(waypost.FromFrontend), "frontend, or admin, which finds articles that are not published too")
	f.IntVar(&level, "level", waypost.MaxAccessLevel, "only what this user access level may see, 0 to 10")
	f.IntVar(&page, "page", 1, "the page, from 1")
	f.IntVar(&perPage, "per-page", 10, "articles of a page, 1 to 50")
	filled(cmd, "tenant")
	return cmd
}

// search asks with the profile's token, or else with one that is issued for this
// search.
func (c *client) search(ctx context.Context, query url.Values) (answer, error) {
	target := searchPath + "?" + query.Encode()
	stage := cmp.Or(waypost.Stage(c.gateway.Header.Get("X-Cloud-Stage")), waypost.StageRelease)
	// waypost-dev issues the profile's token for its tenant in the default stage.
	if p := c.profile; p.SearchToken != "" && p.TenantID == query.Get("tenant_id") && stage == waypost.StageRelease {
		a, err := c.withBearer(p.SearchToken).do(ctx, http.MethodGet, target, nil, nil)
		if waypost.CodeOf(err) != waypost.CodeUnauthorized {
			return a, err
		}
	}
	token, err := c.searchToken(ctx, query.Get("tenant_id"), query.Get("from"))
	if err != nil {
		return answer{}, err
	}
	return c.withBearer(token).do(ctx, http.MethodGet, target, nil, nil)
}

// searchToken has a token issued that lasts for one search.
func (c *client) searchToken(ctx context.Context, tenant, from string) (string, error) {
	body, err := json.Marshal(map[string]any{
		"tenantIds": []string{tenant}, "from": []string{from}, "expiresIn": int(waypost.MinTokenExpiry.Seconds()),
	})
	if err != nil {
		return "", fmt.Errorf("encode the request: %w", err)
	}
	a, err := c.do(ctx, http.MethodPost, tokensPath, nil, body)
	if err != nil {
		return "", fmt.Errorf("no search token was issued: %w", err)
	}
	var issued struct {
		Token string `json:"access_token"`
	}
	if err := json.Unmarshal(a.body, &issued); err != nil || issued.Token == "" {
		return "", errors.New("the gateway's answer is no search token")
	}
	return issued.Token, nil
}

// printHits writes a page of articles that were found.
func (c *cli) printHits(a answer) error {
	if c.output == outputJSON {
		return c.printJSON(json.RawMessage(a.body))
	}
	var envelope struct {
		Message struct {
			Meta struct {
				Page  int `json:"current_page"`
				Pages int `json:"total_pages"`
				Total int `json:"total_count"`
			} `json:"meta"`
			Items []struct {
				ID      string `json:"id"`
				Name    string `json:"name_highlight"`
				Excerpt string `json:"search_highlight"`
				Level   int    `json:"access_level"`
			} `json:"items"`
		} `json:"message"`
	}
	if err := json.Unmarshal(a.body, &envelope); err != nil {
		return fmt.Errorf("the gateway's answer is no search result: %w", err)
	}
	meta, items := envelope.Message.Meta, envelope.Message.Items
	if len(items) > 0 {
		rows := [][]string{{"ID", "LEVEL", "TITLE", "TEXT"}}
		for _, hit := range items {
			rows = append(rows, []string{clean(hit.ID), strconv.Itoa(hit.Level), c.marked(hit.Name), c.marked(hit.Excerpt)})
		}
		if _, err := fmt.Fprint(c.stdout, aligned(rows)); err != nil {
			return err
		}
	}
	says := some(meta.Total, "article", "articles")
	switch {
	case meta.Total == 0:
		fmt.Fprintln(c.stderr, "Nothing was found.")
	case len(items) == 0:
		fmt.Fprintf(c.stderr, "Page %d is behind the last one, %d.\n", meta.Page, meta.Pages)
	case meta.Page < meta.Pages:
		fmt.Fprintf(c.stderr, "%s, page %d of %d; the next: --page %d\n", says, meta.Page, meta.Pages, meta.Page+1)
	default:
		fmt.Fprintf(c.stderr, "%s, page %d of %d\n", says, meta.Page, meta.Pages)
	}
	return nil
}

// What is around matched text on a terminal.
const boldOn, boldOff = "\x1b[1m", "\x1b[22m"

// mark is what is around matched text in a highlight. Nothing else in it is markup.
var mark = regexp.MustCompile(`<b class="highlight">|</b>`)

// marked is the text of a highlight, which is HTML, on one line; what matched is bold
// where somebody watches.
func (c *cli) marked(highlight string) string {
	var b strings.Builder
	deep, at := 0, 0
	write := func(from, to int) { b.WriteString(clean(html.UnescapeString(highlight[from:to]))) }
	highlight = strings.Join(strings.Fields(highlight), " ")
	for _, m := range mark.FindAllStringIndex(highlight, -1) {
		write(at, m[0])
		at = m[1]
		change, step := boldOn, 1
		if highlight[m[0]+1] == '/' {
			change, step = boldOff, -1
		}
		if c.bold && deep+max(0, step) == 1 { // the outermost one
			b.WriteString(change)
		}
		deep += step
	}
	write(at, len(highlight))
	return b.String()
}

// aligned writes rows in columns, by the room that characters take on a terminal.
func aligned(rows [][]string) string {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], widthOf(cell))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		for i, cell := range row {
			b.WriteString(cell)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-widthOf(cell)+2))
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// wide are the characters that take the room of two: those of CJK, their punctuation
// and full-width forms, and most emoji.
var wide = &unicode.RangeTable{
	R16: []unicode.Range16{{Lo: 0x1100, Hi: 0x115F, Stride: 1}, {Lo: 0x2E80, Hi: 0x303E, Stride: 1}, {Lo: 0x3041, Hi: 0xA4CF, Stride: 1},
		{Lo: 0xAC00, Hi: 0xD7A3, Stride: 1}, {Lo: 0xF900, Hi: 0xFAFF, Stride: 1}, {Lo: 0xFE30, Hi: 0xFE6F, Stride: 1}, {Lo: 0xFF01, Hi: 0xFF60, Stride: 1}, {Lo: 0xFFE0, Hi: 0xFFE6, Stride: 1}},
	R32: []unicode.Range32{{Lo: 0x1F300, Hi: 0x1F64F, Stride: 1}, {Lo: 0x1F900, Hi: 0x1F9FF, Stride: 1}, {Lo: 0x20000, Hi: 0x3FFFD, Stride: 1}},
}

// widthOf is how many columns of a terminal a text takes.
func widthOf(s string) int {
	n := 0
	for _, r := range strings.NewReplacer(boldOn, "", boldOff, "").Replace(s) {
		switch {
		case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf): // they stand on the one before
		case unicode.Is(wide, r):
			n += 2
		default:
			n++
		}
	}
	return n
}
