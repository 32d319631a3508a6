package browser_test

import (
	"fmt"
	"strings"
	"testing"

	"waypost/devstack/browser"
)

// shows waits until an element has a text.
func shows(t *testing.T, p *browser.Page, selector, text string) {
	t.Helper()
	p.Until(fmt.Sprintf("document.querySelector(%q)?.textContent.includes(%q)", selector, text))
}

// click clicks, and waits for the page that it leads to, which has an element.
func click(t *testing.T, p *browser.Page, selector, then string) {
	t.Helper()
	p.Script(`document.documentElement.dataset.before = "yes"`)
	p.Click(selector)
	p.Shows("html:not([data-before]) " + then)
}

// touchpoint is a node, whose next one ends the journey.
func touchpoint(id, webhook string) browser.Object {
	return browser.Object{"id": id, "type": "touchpoint", "webhook": webhook, "next": "end"}
}

var exit = browser.Object{"id": "end", "type": "exit"}

// A receiver fails: its errors are found in one group, its webhook is mended and tried, and
// all that it did not get is delivered, which the page tells as it goes on.
func TestMending(t *testing.T) {
	t.Parallel()
	api := browser.API(t)
	hook := api.Webhook("Mailer", "http://127.0.0.1:1/mailer") // nobody listens there
	journey := api.Journey("Mended", touchpoint("mail", hook), exit)
	for i := range 3 {
		api.Enroll(journey, api.Lead(browser.Object{"name": fmt.Sprint("Mended ", i)}))
	}
	list := "/v1/deliveries?webhookId=" + hook + "&status="
	api.Await(list+"failed", 3)

	p := browser.Open(t, "/deliveries?webhookId="+hook, browser.Look{})
	if got := p.Text("#failures .group"); !strings.Contains(got, "3") || !strings.Contains(got, "Network error") || !strings.Contains(got, "Mailer") || !strings.Contains(got, "connection refused") {
		t.Errorf("the group of errors is %q", got)
	}
	click(t, p, "#failures .group", "#deliveries tbody")
	if here := browser.Eval[string](p, "location.href"); !strings.Contains(here, "errorClass=network") || !strings.Contains(here, "webhookId="+hook) {
		t.Errorf("the group leads to %s", here)
	}
	click(t, p, "#deliveries tbody a[href^='/deliveries/']", ".timeline")
	shows(t, p, "#attempts", "Attempt 1")
	click(t, p, "a[href='/webhooks/"+hook+"']", "#health")
	click(t, p, "a[href$='?edit']", "#field-url")
	p.Fill("#field-url", "ftp://mailer")
	click(t, p, ".submit .primary", "#fault-url")
	p.Allow("400") // the form is answered with what is wrong
	p.Fill("#field-url", api.Receiver+"/mailer")
	click(t, p, ".submit .primary", ".note.ok")
	click(t, p, "form[action$='/test'] button", ".note.ok")
	shows(t, p, ".note.ok", "took the test message")

	p.Visit("/deliveries?webhookId=" + hook)
	p.Click("[data-dialog='again-all']")
	p.Shows("#again-all")
	shows(t, p, "#again-all-title", "Send 3 messages once more?")
	click(t, p, "#again-all .primary", "#redeliveries .job")
	shows(t, p, "#redeliveries", "Redelivery completed")
	shows(t, p, "#redeliveries", "3 delivered")
	p.Until("!document.querySelector('#failures section')")
	api.Await(list+"succeeded", 3)
}

// Deliveries that are picked by hand are sent again, and no others.
func TestPickedDeliveries(t *testing.T) {
	t.Parallel()
	api := browser.API(t)
	hook := api.Webhook("Picky", api.Receiver+"/picky?fail=1")
	journey := api.Journey("Picked", touchpoint("pick", hook), exit)
	for i := range 3 {
		api.Enroll(journey, api.Lead(browser.Object{"name": fmt.Sprint("Picked ", i)}))
	}
	list := "/v1/deliveries?webhookId=" + hook + "&status="
	api.Await(list+"failed", 3)

	p := browser.Open(t, "/deliveries?webhookId="+hook, browser.Look{})
	p.Click("#deliveries tbody tr:nth-child(1) [data-pick]")
	p.Click("#deliveries tbody tr:nth-child(2) [data-pick]")
	shows(t, p, "[data-picked]", "2 selected")
	p.Click("[data-picked] button")
	p.Shows("#again-picked")
	shows(t, p, "#again-picked", "Send 2 messages once more?")
	click(t, p, "#again-picked .primary", ".note.ok")
	api.Await(list+"succeeded", 2)
	api.Await(list+"failed", 1)
}

// An enrollment tells its way in words, is paused, resumed and canceled.
func TestEnrollmentIsControlled(t *testing.T) {
	t.Parallel()
	api := browser.API(t)
	journey := api.Journey("Controlled", browser.Object{"id": "rest", "type": "delay", "for": "72h", "label": "Three days", "next": "end"}, exit)
	e := api.Enroll(journey, api.Lead(browser.Object{"name": "Ada"}))
	api.Await("/v1/enrollments?journeyId="+journey+"&status=waiting", 1)

	p := browser.Open(t, "/enrollments/"+e, browser.Look{})
	shows(t, p, "#timeline", "Three days")
	shows(t, p, "#timeline", "Until")
	for _, step := range []struct{ opens, confirms, says, badge string }{
		{"[data-dialog='pause']", "#pause .dialog-actions button:last-child", "Nothing is sent until you resume", "Paused"},
		{"[data-dialog='resume']", "#resume .primary", "Resumed", "Waiting"},
		{"[data-dialog='cancel']", "#cancel .danger", "left the journey", "Canceled"},
	} {
		p.Click(step.opens)
		click(t, p, step.confirms, ".note.ok")
		shows(t, p, ".note.ok", step.says)
		shows(t, p, "#timeline .badge", step.badge)
	}
	p.Until("!document.querySelector('[data-dialog=cancel]')")
}

// A webhook is made with a secret that is shown once, which is then replaced.
func TestWebhookSecretIsShownOnce(t *testing.T) {
	t.Parallel()
	api := browser.API(t)
	p := browser.Open(t, "/webhooks/new", browser.Look{})
	p.Fill("#field-name", `<b>"Secret"</b>`)
	p.Fill("#field-url", api.Receiver+"/secret")
	p.Click("[name=sign]")
	click(t, p, ".submit .primary", ".secret code")
	first := p.Text(".secret code")
	if !strings.HasPrefix(first, "whsec_") {
		t.Errorf("the secret is %q", first)
	}
	p.Until(`location.pathname.startsWith("/webhooks/whk_")`)
	path := browser.Eval[string](p, "location.pathname")
	p.Visit(path)
	p.Until("!document.querySelector('.secret') && document.querySelector('h1').textContent === '<b>\"Secret\"</b>'")
	p.Click("[data-dialog='rotate']")
	shows(t, p, "#rotate", "24h")
	click(t, p, "#rotate .dialog-actions button:last-child", ".secret code")
	if second := p.Text(".secret code"); second == first || !strings.HasPrefix(second, "whsec_") {
		t.Errorf("the second secret is %q", second)
	}
	shows(t, p, ".secret", "The secret before it also signs")
	w := api.Do("GET", "/v1"+path, nil)
	if w["signingSecretSet"] != true || w["previousSigningSecretUntil"] == nil {
		t.Errorf("the webhook is %v", w)
	}
}

// hostile is a name that breaks pages which do not expect it.
const hostile = "<script>alert(1)</script> \u202e\u0645\u0631\u062d\u0628\u0627 \U0001f389"

// A lead is added, found, changed in one field, and erased.
func TestLeadIsChanged(t *testing.T) {
	t.Parallel()
	api := browser.API(t)
	p := browser.Open(t, "/leads/new", browser.Look{})
	p.Fill("#field-name", hostile)
	p.Fill("#field-mobilePhone", "123")
	click(t, p, ".submit .primary", "#fault-mobilePhone")
	p.Allow("400")
	p.Fill("#field-mobilePhone", "13800138000\n13900139000")
	p.Fill("#field-externalId", "changed-1")
	p.Fill("[name='customFields.name']", "plan")
	p.Fill("[name='customFields.value']", "<i>pro</i>")
	click(t, p, ".submit .primary", ".note.ok")
	shows(t, p, "h1", "<script>alert(1)</script>")
	path := browser.Eval[string](p, "location.pathname")
	click(t, p, "a[href$='?edit']", "#field-remark")
	p.Fill("#field-remark", strings.Repeat("长", 4096))
	click(t, p, ".submit .primary", ".note.ok")
	lead := api.Do("GET", "/v1"+path, nil)
	if custom := lead["customFields"].(map[string]any); custom["plan"] != "<i>pro</i>" || len(lead["mobilePhone"].([]any)) != 2 || len([]rune(lead["remark"].(string))) != 4096 {
		t.Errorf("the lead is %v", lead)
	}
	if browser.Eval[bool](p, "document.documentElement.scrollWidth > innerWidth") {
		t.Error("the page is wider than the window")
	}
	p.Visit("/leads?externalId=changed-1")
	click(t, p, "#leads-table tbody a", "#story")
	p.Click("[data-dialog='delete']")
	shows(t, p, "#delete", "everything that is stored about this person is erased")
	click(t, p, "#delete .danger:last-child", ".note.ok")
	api.Await("/v1/leads?externalId=changed-1", 0)
}

// A file as a spreadsheet in China writes it is decoded, its columns are found, and nothing
// is sent before it was looked at; rows that fail are named with their lines.
func TestImport(t *testing.T) {
	t.Parallel()
	api := browser.API(t)
	p := browser.OpenStory(t, "/leads/import")
	// 姓名;手机号;性别;会员等级;consents.email;test and 导入一, 导入二 in GB18030.
	file := "\xd0\xd5\xc3\xfb;\xca\xd6\xbb\xfa\xba\xc5;\xd0\xd4\xb1\xf0;\xbb\xe1\xd4\xb1\xb5\xc8\xbc\xb6;consents.email;test\r\n" +
		"\xb5\xbc\xc8\xeb\xd2\xbb;13700137001;\xc5\xae;\"gold; old\";false;TRUE\r\n\r\n" +
		"\xb5\xbc\xc8\xeb\xb6\xfe;12;\xc4\xd0;;;\r\n"
	var bytes []string
	for _, b := range []byte(file) {
		bytes = append(bytes, fmt.Sprint(b))
	}
	choose := func(p *browser.Page) {
		browser.Eval[bool](p, `(() => {
			const files = new DataTransfer();
			files.items.add(new File([new Uint8Array([`+strings.Join(bytes, ",")+`])], "leads.csv"));
			const input = document.querySelector("[data-file]");
			input.files = files.files;
			return input.dispatchEvent(new Event("change"));
		})()`)
	}
	choose(p)
	p.Shows("[data-review]")
	shows(t, p, "[data-lines]", "导入一")
	shows(t, p, "[data-total]", "2 rows")
	if got := browser.Eval[string](p, `[document.querySelector("[data-charset]").value, document.querySelector("[data-separator]").value, ...[...document.querySelectorAll("[data-heads] select")].map((s) => s.value)].join()`); got != "gb18030,;,name,mobilePhone,gender,customFields.会员等级,consents.email,test" {
		t.Errorf("guessed: %s", got)
	}
	p.Accessible()
	p.Screenshot("import-preview")
	pictures(t, "import-preview", "/leads/import", "[data-review]", choose)
	p.Click("[data-send]")
	shows(t, p, "#import", "The check is done")
	api.Await("/v1/leads?mobilePhone=13700137001", 0)
	shows(t, p, "#import tbody", "4") // the line of the file, behind the empty one
	shows(t, p, "#import tbody", "mobilePhone[0]")
	p.Accessible()
	if rows := browser.Eval[string](p, `fetch(document.querySelector("#import a[download]").href).then((answer) => answer.text())`); !strings.Contains(rows, "4,mobilePhone[0],") {
		t.Errorf("the file of failed rows is %q", rows)
	}
	p.Until(`document.querySelector("[data-check]").hidden && !document.querySelector("[data-send]").disabled`)
	click(t, p, "[data-send]", "#import .cards")
	shows(t, p, "#import", "The import is done")
	api.Await("/v1/leads?mobilePhone=13700137001&gender=2&customFields.%E4%BC%9A%E5%91%98%E7%AD%89%E7%BA%A7=gold%3B%20old&test=true", 1)
	lead := api.Items("/v1/leads?mobilePhone=13700137001")[0].(browser.Object)
	if consents, _ := lead["consents"].(browser.Object); consents["email"] != false {
		t.Errorf("consents: %v", lead["consents"])
	}
}

// An article is written, found with its highlights, which bring no markup, and changed.
func TestArticle(t *testing.T) {
	t.Parallel()
	api := browser.API(t)
	p := browser.Open(t, "/articles/new", browser.Look{})
	set := func(name, value string) { p.Fill("#field-"+name, value) }
	set("id", "returns")
	set("tenant_id", "console-site")
	set("name", "<b>退款</b> & returns")
	set("identifier", "a/b")
	set("content", "How refunds work.\n<img src=x onerror=alert(1)> 退款需要三天。")
	click(t, p, ".submit .primary", "#fault-identifier")
	p.Allow("400")
	set("identifier", "returns")
	click(t, p, ".submit .primary", ".note.ok")
	a := api.Do("GET", "/v1/articles/returns", nil)
	if a["tenant_id"] != "console-site" || a["published"] != true {
		t.Errorf("the article is %v", a)
	}
	for range 100 { // it is indexed a moment later
		p.Visit("/articles?tenant_id=console-site&keywords=%E9%80%80%E6%AC%BE")
		if browser.Eval[bool](p, "document.querySelector('.hit') !== null") {
			break
		}
	}
	shows(t, p, ".hit mark", "退款")
	shows(t, p, ".hit h2", "<b>退款</b> & returns")
	p.Until("!document.querySelector('.hit img')")
	p.Accessible()
	p.Screenshot("articles-found")
	click(t, p, ".hit h2 a", "#field-content")
	p.Click("[name=published]")
	click(t, p, ".submit .primary", ".note.ok")
	if a := api.Do("GET", "/v1/articles/returns", nil); a["published"] != false || !strings.Contains(a["content"].(string), "onerror") {
		t.Errorf("the article is %v", a)
	}
}
