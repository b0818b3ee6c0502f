// A run that answered, kept as a tool: what it would be is shown, and one yes is for all of it.

let proposal = null; // as the server shows it; null until it was asked for

const proposalKey = () => (proposal ? JSON.stringify([proposal.name, proposal.digest, proposal.unfit, proposal.kept]) : "");

function keepCard(id) {
  const label = "keep-as";
  const field = el("input", { id: label, type: "text", maxlength: "64", spellcheck: "false", autocomplete: "off" });
  if (proposal) field.value = proposal.name;
  const post = async (body) => {
    try {
      return await ask(`/runs/${id}/keep`, body);
    } catch (error) {
      if (error.found && error.found.proposal) { proposal = error.found.proposal; later(); } // as it is now
      throw error;
    }
  };
  const show = doing("Show the tool", "", async () => { proposal = (await post({ name: field.value.trim() })).proposal; later(); });
  const asked = el("p", { class: "acts" }, el("label", { for: label, text: "Keep as a tool named " }), field, show);
  if (!proposal) return el("li", { class: "approval quietly" }, asked, el("p", { class: "faint", text: "nothing is called: its program is tried on what was recorded" }));
  if (proposal.kept) return el("li", { class: "approval quietly" }, el("p", {}, "kept as the tool ", el("code", { text: proposal.kept }), ": ", el("code", { text: `atc tools call ${proposal.kept}` })));
  const row = (what, { name, value, why }, tone) => el("p", { class: tone ? "note warn" : "" }, `${what} `, el("code", { text: name }), " = ", el("code", { text: value }), el("span", { class: "faint", text: ` ${why}` }));
  const note = (text) => el("p", { class: "note warn", text });
  const yes = async () => { proposal = { ...proposal, kept: (await post({ name: proposal.name, digest: proposal.digest })).kept }; say("kept as a tool"); later(); };
  const name = `keep-${LIVE.run_id}`;
  return el("li", { class: "approval" }, asked, el("p", { id: name }, el("code", { class: "tool", text: proposal.signature })),
    el("p", { text: proposal.about }), el("p", { class: "faint", text: proposal.effect }),
    proposal.parameters.map((each) => row("parameter", each, false)), proposal.constants.map((each) => row("stays:", each, each.confirm)),
    el("pre", { text: proposal.program }), proposal.doubts.map(note),
    proposal.unfit.map((text) => el("p", { class: "note bad", text })),
    LIVE.no_yes ? note(LIVE.no_yes) : proposal.digest ? guardedActs(doing("Keep", "good", yes, name)) : null);
}
