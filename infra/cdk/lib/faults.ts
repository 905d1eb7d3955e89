/**
 * Collects the faults in the properties of one construct or call into one error, so that one synthesis shows all of
 * them.
 */
export class Faults {
  private readonly found: string[] = [];

  /** Adds a wrong property: what it must be, and what it is. */
  public add(property: string, expected: string, got: unknown): void {
    this.note(`${property} must be ${expected}, got ${typeof got === 'string' ? JSON.stringify(got) : got}`);
  }

  /** Adds a fault as free text. */
  public note(fault: string): void {
    this.found.push(fault);
  }

  /** Throws an error if there are faults. */
  public throwIfAny(subject: string): void {
    if (this.found.length > 0) throw new Error(`${subject}: ${this.found.join('; ')}`);
  }
}
