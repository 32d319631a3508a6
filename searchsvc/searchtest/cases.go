package searchtest

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"waypost"
	"waypost/searchsvc"
)

// checkRule compares all hits of a search with the rule, in order: exactly, where no
// two articles of docs have the same time.
func checkRule(t testing.TB, index searchsvc.Index, docs []searchsvc.Document, a ask) {
	t.Helper()
	want := rule(docs, a)
	var got, ids []string
	for i, hit := range a.all(t, index) {
		got = append(got, hit.ID)
		if i < len(want) && want[i].ID == hit.ID {
			checkHit(t, a.keyword, hit, want[i], false)
		}
	}
	for _, d := range want {
		ids = append(ids, d.ID)
	}
	if !slices.Equal(got, ids) {
		t.Errorf("%+v:\n got %s\nwant %s", a, got, ids)
	}
}

// Pages of many hits: none twice and none left out, where many have the same time
// too, and what is behind the last page is empty.
func testPages(t *testing.T, index searchsvc.Index) {
	docs := make([]searchsvc.Document, 120)
	for i := range docs {
		docs[i] = article(i+1, "目录 "+strconv.Itoa(i), "同时")
		if i%10 == 0 {
			docs[i].Name = "同时"
		}
		docs[i].PublishedAt = time.UnixMilli(int64(1_700_000_000_000 + i/40)).UTC()
	}
	Fill(t, index, "articles_pages", docs)
	for _, perPage := range []int{1, 7, 50} {
		hits := ask{keyword: "同时", perPage: perPage}.all(t, index)
		seen := map[string]bool{}
		for i, hit := range hits {
			seen[hit.ID] = true
			if inName := hit.Name == "同时"; inName != (i < 12) {
				t.Fatalf("%s is hit %d", hit.Name, i+1)
			}
		}
		if len(seen) != len(docs) {
			t.Errorf("pages of %d hold %d articles, want %d", perPage, len(seen), len(docs))
		}
		number := func(i int) int { n, _ := strconv.Atoi(strings.TrimPrefix(hits[i].ID, "a")); return (n - 1) / 40 }
		for i := 1; i < len(hits); i++ {
			if i != 12 && number(i) > number(i-1) {
				t.Errorf("pages of %d: %s stands behind %s", perPage, hits[i].ID, hits[i-1].ID)
			}
		}
	}
	for _, page := range []int{4, 1000, 1<<31 - 1} {
		if got := (ask{keyword: "同时", page: page}).must(t, index); got.Total != len(docs) || len(got.Hits) != 0 || got.Page != page {
			t.Errorf("page %d: total %d, %d hits, page %d", page, got.Total, len(got.Hits), got.Page)
		}
	}
}

var stages = []waypost.Stage{waypost.StageRelease, waypost.StagePreRelease, waypost.StageTest}

// Who may see what: stages, tenants, levels of articles and channels, drafts.
func testVisibility(t *testing.T, index searchsvc.Index) {
	var docs []searchsvc.Document
	add := func(change func(*searchsvc.Document)) {
		d := article(len(docs)+1, "可见性", "谁能看到")
		change(&d)
		docs = append(docs, d)
	}
	for _, stage := range stages {
		for _, tenant := range []string{"t1", "T1", "t-1", "t_1", "t.1", "t11", "1", strings.Repeat("a", 64), strings.Repeat("a", 63)} {
			add(func(d *searchsvc.Document) { d.Stage, d.TenantID, d.ID = stage, tenant, "same" })
		}
	}
	for own := 0; own <= waypost.MaxAccessLevel; own += 5 {
		for channel := 0; channel <= waypost.MaxAccessLevel; channel += 5 {
			for _, published := range []bool{true, false} {
				add(func(d *searchsvc.Document) {
					d.AccessLevel, d.Channels[0].AccessLevel, d.Published, d.TenantID = own, channel, published, "levels"
				})
			}
		}
	}
	add(func(d *searchsvc.Document) { d.TenantID, d.Channels = "bare", nil })
	Fill(t, index, "articles_visibility", docs)
	for _, from := range waypost.Origins {
		for _, stage := range stages {
			for _, tenant := range []string{"t1", "T1", "t-1", "1", "a", strings.Repeat("a", 64), strings.Repeat("a", 63), "bare", "nobody"} {
				checkRule(t, index, docs, ask{keyword: "可见", from: from, stage: stage, tenant: tenant})
			}
		}
		for _, user := range []string{"", "0", "4", "5", "9", "10"} {
			for _, level := range []int{1, 5, 10} {
				checkRule(t, index, docs, ask{keyword: "可见", from: from, tenant: "levels", user: user, level: level})
			}
		}
	}
}

// Texts that mean something to a page, to an engine or to Unicode.
func testHostile(t *testing.T, index searchsvc.Index) {
	texts := []string{
		`<script>alert("预算")</script>`,
		`预算 <b class="highlight">假的</b> </b><b class="highlight">`,
		`"><img src=x onerror=alert(1)> 预算 &amp; &lt;b&gt; &#60;`,
		"ẞẞẞ İİİ ﬁﬁﬁ 预算 Straße ISTANBUL İstanbul ﬁnance",
		"\uE000\uE001\uE002\uE004\uE005 预算 \uE00F\uF8FF\U000F0000",
		"` || tenant_key:!=x && 预算:=1 */ -- ' OR 1=1 $(x) {{.}} ${x} %00 \\u003c",
		"预算\r\n\r\n\t预算\u2028预算\u200B预算\u00A0预算",
		"👨‍👩‍👧‍👦 预算 👍🏽 🏳️‍🌈 e\u0301\u0302\u0303 " + strings.Repeat("\u0301", 80) + "预算",
		"\u202Etxet 预算\u202C \uFEFF预算 \uFFFD \uFFFF",
		strings.Repeat("预", 300) + "预算" + strings.Repeat("算", 300),
		strings.Repeat("a", 5000) + " 预算 " + strings.Repeat("b", 5000),
		"𠮷野家 预算 𠀀 ｶﾅ か\u309A ー〇々 한국어 ㄅㄆ",
		"预算",
	}
	var docs []searchsvc.Document
	for i, text := range texts {
		docs = append(docs, article(2*i+1, text[:min(len(text), 300)], "没有"), article(2*i+2, "标题", text))
		name := &docs[2*i].Name
		*name = strings.Trim(strings.ToValidUTF8(*name, ""), " ")
	}
	empty := article(2*len(texts)+1, "预算 无", "")
	empty.FrontendURL, empty.Channels, empty.Identifier = "", nil, "x"
	blank := article(2*len(texts)+2, "预算 空", " \n ")
	docs = append(docs, empty, blank)
	Fill(t, index, "articles_hostile", docs)
	for _, keyword := range []string{
		"预算", "算", "script", "alert 预算", "highlight", "class", "b", "amp", "lt", "onerror", "假的", "OR 预算",
		"ẞẞẞ", "straße", "istanbul", "ﬁﬁﬁ", "👍", "𠮷野家", "𠀀", "ｶﾅ", "한국어", "ㄅㄆ", "〇々", "标题", "无", "空",
		"u003c", "1=1", "%00", "预算预算", "预预算", "预算算", "aaaaa", "没有 预算",
		`"预算"`, "-预算", "预算*", "预算 && tenant_id:!=1", "`预算`", "*", "{预算}", "预算\x00", "\uE000预算\uE001", "\uE002", "预算 🏳️‍🌈",
		strings.Repeat("很长的关键词没有命中", 17), strings.Repeat("a ", 200), strings.Repeat("a", 512), strings.Repeat("预 ", 128), strings.Repeat("!", 512), strings.Repeat("🚀", 128),
	} {
		a := ask{keyword: keyword}
		seen := map[string]bool{}
		for _, hit := range a.all(t, index) {
			seen[hit.ID] = true
			at := slices.IndexFunc(docs, func(d searchsvc.Document) bool { return d.ID == hit.ID })
			if at < 0 {
				t.Fatalf("found %s, which is not there", hit.ID)
			}
			// Engines correct typing errors in words, so there may be more hits.
			checkHit(t, keyword, hit, docs[at], strings.ContainsFunc(keyword, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }))
		}
		for _, d := range rule(docs, a) {
			if !seen[d.ID] {
				t.Errorf("%q does not find %s", keyword, d.ID)
			}
		}
	}
}

// An article of a megabyte is found by what stands anywhere in it, and shown from
// there.
func testLong(t *testing.T, index searchsvc.Index) {
	r := rand.New(rand.NewPCG(1, 2))
	var text strings.Builder
	for text.Len() < 1<<20-200 {
		text.WriteString(sentence(r))
	}
	docs := []searchsvc.Document{
		article(1, "长文", "独角兽 first 开头"+text.String()+"鲸鱼结尾 unicorn"),
		article(2, "长词", strings.Repeat("学", 200_000)+strings.Repeat("x", 200_000)+" 鲸鱼"),
	}
	Fill(t, index, "articles_long", docs)
	for _, keyword := range []string{"独角兽", "鲸鱼结尾", "unicorn", "first 鲸鱼", "学学学学", "鲸鱼"} {
		checkRule(t, index, docs, ask{keyword: keyword})
	}
	if got := (ask{keyword: "鲸鱼结尾"}).must(t, index); len(got.Hits) != 1 || !strings.HasSuffix(got.Hits[0].SearchHighlight, openTag+"鲸鱼结尾"+closeTag+" unicorn") {
		t.Errorf("the end of a megabyte: %+v", got.Hits)
	}
}

// Every keyword that stands in a text is found there, and nowhere else: against the
// rule, on generated text.
func testRecall(t *testing.T, index searchsvc.Index) {
	docs := Articles(300)
	Fill(t, index, "articles_recall", docs)
	r := rand.New(rand.NewPCG(3, 4))
	var runs []string // of CJK, as they stand in the texts
	for range 120 {
		d := docs[r.IntN(len(docs))]
		text := d.Content
		if r.IntN(3) == 0 {
			text = d.Name + string([]rune(text)[:60])
		}
		found := strings.FieldsFunc(text, func(r rune) bool { return !searchsvc.InRun(r) })
		run := []rune(found[r.IntN(len(found))])
		n := min(len(run), 1+r.IntN(6))
		at := r.IntN(len(run) - n + 1)
		runs = append(runs, string(run[at:at+n]))
	}
	for i, run := range runs {
		keyword := run
		switch other := runs[r.IntN(len(runs))]; i % 8 {
		case 5:
			keyword += " " + other
		case 6:
			keyword += " " + string([]rune(other)[:1]) // a single character beside it
		case 7: // words of three letters are not corrected
			keyword = latin[r.IntN(4)] + keyword
		}
		checkRule(t, index, docs, ask{keyword: keyword})
	}
}

// Words and characters of generated articles; few enough that chance makes hits. The
// first four are words of three letters.
var (
	latin = strings.Fields("api SQL RAM url search engine Index cluster budget report C++ node.js v2 A-100 résumé")
	han   = []rune("的一是在不了有和人这中大为上个国我以要他时来用们生到作地于出就分对成会可主发年动同工也能下过子说产种面而方后多定行学法所民得经十三之进着等部度家电力里如水化高自二理起小物现实加量都两体制机当使点从业本去把性好应开它合还因由其些然前外天政四日那社义事平形相全表间样与关各重新线内数正心反你明看原又么利比或但质气第向道命此变条只没结解问意建月公无系军很情者最立代想已通并提直题党程展五果料象员革位入常文总次品式活设及管特件长求老头基资边流路级少图山统接知较将组见计别她手角期根论运农指几九区强放决西被干做必战先回则任取据处")
)

// sentence is a few characters or words, and what ends them.
func sentence(r *rand.Rand) string {
	var b strings.Builder
	for range 1 + r.IntN(4) {
		switch r.IntN(6) {
		case 0:
			b.WriteString(" " + latin[r.IntN(len(latin))] + " ")
		case 1:
			b.WriteString(latin[r.IntN(len(latin))])
		default:
			for range 2 + r.IntN(12) {
				// Some characters are far more frequent than others, as in real text.
				b.WriteRune(han[int(float64(len(han))*r.Float64()*r.Float64())])
			}
		}
	}
	b.WriteString([]string{"。", "，", "！\n", " ", "、", "\n\n## ", "……"}[r.IntN(7)])
	return b.String()
}

// Articles are n generated articles of tenant t1, Chinese with English words in
// it, each with a time of its own: the same ones each time.
func Articles(n int) []searchsvc.Document {
	r := rand.New(rand.NewPCG(5, 6))
	docs := make([]searchsvc.Document, n)
	for i := range docs {
		var name, content strings.Builder
		for name.Len() < 20 {
			name.WriteString(sentence(r))
		}
		for length := 60 + r.IntN(1500); content.Len() < length; {
			content.WriteString(sentence(r))
		}
		docs[i] = article(i+1, strings.TrimSpace(name.String()), strings.TrimSpace(content.String()))
		docs[i].PublishedAt = docs[i].PublishedAt.Add(time.Duration(i*7919%n) * time.Minute)
	}
	return docs
}
